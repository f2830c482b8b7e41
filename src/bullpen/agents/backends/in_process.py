"""The in-process backend: agents are asyncio tasks that start quickly and end with the process."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from anyio import to_thread

from bullpen.agents.backends import output_log
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import orphans, process_owners, processes
from bullpen.agents.system.secrets import redactor_of
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

_AGAIN_S = 0.5
"""How often a task is cancelled again after its grace period."""

_working: set[str] = set()
"""The launches that run in this process, in whichever backend."""


@dataclass(frozen=True, slots=True)
class _Running:
    agent: str
    place: ProcessRecord
    task: asyncio.Task[None]


class InProcess:
    """Runs each launch as a task. In its records, `pane` is the nonce of the launch.

    One process has many agents here, so pid and start time alone do not identify one.
    """

    name = "in-process"

    def __init__(self, run: Callable[[Launch], Awaitable[None]]) -> None:
        self._run = run
        self._running: dict[str, _Running] = {}

    async def check(self) -> None:
        """Nothing to check: tasks run everywhere."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the task with its own context."""
        orphans.adopt_orphans()
        # Counted first: if another agent ends meanwhile, the record must stay.
        _working.add(launch.nonce)
        # Its commands are recorded one by one: this process runs the commands of several agents.
        await to_thread.run_sync(process_owners.record, os.getpid(), process_owners.SHARED)
        place = ProcessRecord.new(
            backend=self.name,
            host=processes.host_name(),
            pid=os.getpid(),
            start=processes.start_of(os.getpid()),
            pane=launch.nonce,
            log=launch.log,
        )
        task = asyncio.create_task(self._guarded(launch), name=f"{launch.agent}@{launch.team}")
        task.add_done_callback(lambda _: _has_ended(launch.nonce))
        self._running[launch.nonce] = _Running(launch.agent, place, task)
        return place

    async def _guarded(self, launch: Launch) -> None:
        """Run it; write a crash to its log, as a separate process would."""
        try:
            await self._run(launch)
        except Exception:
            text = redactor_of(launch.env).text(traceback.format_exc())
            await to_thread.run_sync(_append, launch.log, text)

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the task, or the process that runs it, is alive."""
        if not _is_here(place):
            return await to_thread.run_sync(processes.runs, place)
        running = self._running.get(place.pane or "")
        return running is not None and not running.task.done()

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Cancel the task and stop processes that carry its nonce. Raises Unavailable."""
        if not _is_here(place):
            if not await self.alive(place):
                return
            raise Unavailable(
                f"The agent runs inside process {place.pid}, and only that process can stop it.",
                remedy=f"Stop the agent from that process, or end process {place.pid}.",
            )
        begun = time.monotonic()
        running = self._running.get(nonce)
        if running is not None:
            await _cancel([running], grace_s)
            self._running.pop(nonce, None)
        left_s = max(0.0, grace_s - (time.monotonic() - begun))
        await processes.end(None, None, None, nonce, left_s)

    async def screen(self, place: ProcessRecord) -> str:
        return await to_thread.run_sync(output_log.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """Nothing to attach to: there is only the log."""
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        """The tasks that are still running."""
        return {
            nonce: running.place
            for nonce, running in self._running.items()
            if not running.task.done()
        }

    async def aclose(self) -> None:
        """Cancel every task: none can outlive this process."""
        held = list(self._running.values())
        self._running.clear()
        await _cancel(held, 0)


def _has_ended(nonce: str) -> None:
    """Count an end. When the last agent has ended, this process is a person's again."""
    _working.discard(nonce)
    if not _working:
        process_owners.forget(os.getpid())


def _is_here(place: ProcessRecord) -> bool:
    return place.pid == os.getpid() and place.start == processes.start_of(os.getpid())


async def _cancel(held: Iterable[_Running], grace_s: float) -> None:
    """Cancel tasks and wait for their ends; repeat the cancel after the grace period.

    Raises Unavailable if one still runs 5 seconds later, or is the calling task.
    """
    left = {running.task: running.agent for running in held}
    for task, agent in left.items():
        if task is asyncio.current_task():
            raise Unavailable(
                f"{agent} cannot stop itself.", remedy="Stop it from another process."
            )
    wait_s = max(grace_s, _AGAIN_S)
    deadline: float | None = None
    while left:
        for task in left:
            task.cancel()
        done, _ = await asyncio.wait(left, timeout=wait_s)
        wait_s = _AGAIN_S
        for task in done:
            left.pop(task)
        if deadline is None:
            # A loop that was blocked for long gives them their time only now.
            deadline = time.monotonic() + processes.END_S
        elif left and time.monotonic() >= deadline:
            raise Unavailable(
                f"The task of {', '.join(left.values())} ignores its cancellation.",
                remedy=f"End process {os.getpid()}.",
            )


def _append(path: str, text: str) -> None:
    log = output_log.open_log(path)
    try:
        os.write(log, text.encode("utf-8", "replace"))
    finally:
        os.close(log)
