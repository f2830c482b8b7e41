"""Agents as tasks of this process: quick to start, and gone when this process is."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.backends import logs
from bullpen.agents.backends.base import Launch
from bullpen.agents.secrets import redactor_of
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

_AGAIN_S = 0.5
"""How often a task that is over its grace is cancelled again."""


@dataclass(frozen=True, slots=True)
class _Running:
    agent: str
    place: ProcessRecord
    task: asyncio.Task[None]


class InProcess:
    """Runs each launch as a task. In its records, `pane` is the nonce of the launch.

    A process has many agents here, so that pid and start alone do not say which one is meant.
    """

    def __init__(self, run: Callable[[Launch], Awaitable[None]]) -> None:
        self._run = run
        self._running: dict[str, _Running] = {}

    @property
    def name(self) -> str:
        """What people call it."""
        return "in-process"

    async def check(self) -> None:
        """Tasks run everywhere."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the task, with a context of its own."""
        place = ProcessRecord.new(
            backend=self.name,
            host=processes.host_name(),
            pid=os.getpid(),
            start=processes.start_of(os.getpid()),
            pane=launch.nonce,
            log=launch.log,
        )
        task = asyncio.create_task(self._guarded(launch), name=f"{launch.agent}@{launch.team}")
        self._running[launch.nonce] = _Running(launch.agent, place, task)
        return place

    async def _guarded(self, launch: Launch) -> None:
        """Run it; how it broke goes to its log, as it would from a process of its own."""
        try:
            await self._run(launch)
        except Exception:
            text = redactor_of(launch.env).text(traceback.format_exc())
            await to_thread.run_sync(_append, launch.log, text)

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the task, or the process that holds it, still runs."""
        if not _is_here(place):
            return await to_thread.run_sync(processes.runs, place)
        running = self._running.get(place.pane or "")
        return running is not None and not running.task.done()

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Cancel the task, wait for its end, and end what carries its nonce.

        Raises:
            Unavailable: it does not end, or it is a task of another process.
        """
        if not _is_here(place):
            if not await self.alive(place):
                return
            raise Unavailable(
                f"The agent is a task of process {place.pid}, which alone can stop it.",
                remedy=f"Ask that process to stop it, or end process {place.pid}.",
            )
        begun = time.monotonic()
        running = self._running.get(nonce)
        if running is not None:
            await _cancel([running], grace_s)
            self._running.pop(nonce, None)
        left_s = max(0.0, grace_s - (time.monotonic() - begun))
        await processes.end(None, None, None, nonce, left_s)

    async def screen(self, place: ProcessRecord) -> str:
        """The last lines of its log."""
        return await to_thread.run_sync(logs.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """There is nothing to see but the log."""
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        """The tasks that still run."""
        return {
            nonce: running.place
            for nonce, running in self._running.items()
            if not running.task.done()
        }

    async def aclose(self) -> None:
        """Cancel every task: none can go on without this process."""
        held = list(self._running.values())
        self._running.clear()
        await _cancel(held, 0)


def _is_here(place: ProcessRecord) -> bool:
    return place.pid == os.getpid() and place.start == processes.start_of(os.getpid())


async def _cancel(held: Iterable[_Running], grace_s: float) -> None:
    """Cancel tasks and wait for their ends; those over their grace are cancelled again and again.

    Raises:
        Unavailable: one is not done 5 seconds after the grace, or it is the one that asks.
    """
    left = {running.task: running.agent for running in held}
    for task, agent in left.items():
        if task is asyncio.current_task():
            raise Unavailable(
                f"{agent} cannot wait for its own end.", remedy="Stop it from somewhere else."
            )
    deadline = time.monotonic() + grace_s + processes.END_S
    wait_s = max(grace_s, _AGAIN_S)
    while left:
        for task in left:
            task.cancel()
        done, _ = await asyncio.wait(left, timeout=min(wait_s, deadline - time.monotonic()))
        wait_s = _AGAIN_S
        for task in done:
            left.pop(task)
        if left and time.monotonic() >= deadline:
            raise Unavailable(
                f"The task of {', '.join(left.values())} swallows its cancellation.",
                remedy=f"End process {os.getpid()} to be rid of it.",
            )


def _append(path: str, text: str) -> None:
    log = logs.open_log(path)
    try:
        os.write(log, text.encode("utf-8", "replace"))
    finally:
        os.close(log)
