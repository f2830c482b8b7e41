"""Host processes that run the same steps in lockstep."""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

import anyio

from crowd import context

_PATIENCE_S = 300.0

Pause = Callable[[Any], Awaitable[None]]
"""Called by a host at the end of a step with its result; returns when all may continue."""

Work = Callable[..., Awaitable[Any]]
"""What a host does: `work(index, pause, *args)`."""


class Hosts:
    """Processes with an event loop each; they end when this is closed."""

    def __init__(self, count: int, work: Work, *args: Any) -> None:
        self._pipes: list[Connection] = []
        self._processes = []
        for index in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run, args=(theirs, work, index, args), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(process.join, 10.0)
            if process.is_alive():
                process.kill()
                process.join()

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def found(self) -> list[Any]:
        """The results of all hosts in this step, once all have finished it.

        Raises:
            RuntimeError: one failed; the text is its traceback.
        """
        return await anyio.to_thread.run_sync(_received, self._pipes)

    def go_on(self) -> None:
        """Start the next step in all hosts."""
        for pipe in self._pipes:
            pipe.send(None)

    async def step(self) -> list[Any]:
        """Run the next step in all hosts and return their results."""
        self.go_on()
        return await self.found()


def _received(pipes: Sequence[Connection]) -> list[Any]:
    found: dict[Connection, Any] = {}
    deadline = time.monotonic() + _PATIENCE_S
    while len(found) < len(pipes):
        missing = [pipe for pipe in pipes if pipe not in found]
        ready = wait(missing, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RuntimeError(f"A host did not answer within {_PATIENCE_S:g} s.")
        for pipe in missing:
            if pipe in ready:
                failed, found[pipe] = pipe.recv()
                if failed:
                    raise RuntimeError(found[pipe])
    return [found[pipe] for pipe in pipes]


def _run(pipe: Connection, work: Work, index: int, args: tuple[Any, ...]) -> None:
    async def pause(value: Any) -> None:
        pipe.send((False, value))
        await anyio.to_thread.run_sync(pipe.recv)

    async def all_steps() -> Any:
        return await work(index, pause, *args)

    try:
        pipe.send((False, anyio.run(all_steps)))
    except (EOFError, BrokenPipeError):
        # Nobody is waiting for it any more.
        return
    except BaseException:
        pipe.send((True, traceback.format_exc()))
