"""An event loop whose clock jumps to the next timer when nothing is ready.

It also knows simulated processes. Every callback carries the context of the task that it belongs
to, and so its process: those of a killed process are never run again, those of a stopped one wait.
That is what `looptime` cannot do, and why this is not `looptime`: a kill that runs no cleanup.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from anyio._backends._asyncio import _task_states

T = TypeVar("T")

STEPS_MAX = 400_000
"""How many callbacks one history may take; more is a loop that never waits."""


class SimulatedProcess:
    """One process of the simulated machine."""

    def __init__(self, name: str, pid: int, nonce: str, context: Context) -> None:
        self.name, self.pid, self.nonce = name, pid, nonce
        self.context = context
        self.start = f"{pid}-simulated"
        self.alive = True
        self.ended = asyncio.Event()
        self.stopped = False
        self.stopped_until = 0.0
        self.on_term: Callable[[], None] | None = None
        self.on_kill: Callable[[], None] | None = None
        self.held: list[asyncio.Handle] = []
        self.tasks: dict[int, asyncio.Task[Any]] = {}


PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("simulated_process", default=None)
"""The process that the running code belongs to; None for the simulation itself."""


class Stuck(Exception):
    """Nothing is ready and no timer is set, or the loop never waits."""


class NumberedTask(asyncio.Task[Any]):
    """A task that sorts by its number in sets: memory addresses must not order a history."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in order; time passes only when all of them wait."""

    _ready: Any
    _scheduled: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.steps = 0
        self._tasks = 0
        self.stray_tasks: dict[int, asyncio.Task[Any]] = {}
        self.set_task_factory(self._new_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **given: Any
    ) -> asyncio.Task[Any]:
        self._tasks += 1
        task = NumberedTask.__new__(NumberedTask)
        task.number = self._tasks
        NumberedTask.__init__(task, coro, loop=loop, **given)
        context = given.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        # Kept alive: collecting the tasks of a killed process would run their cleanup.
        kept = self.stray_tasks if process is None else process.tasks
        kept[task.number] = task
        if process is None or process.alive:
            task.add_done_callback(lambda done: kept.pop(task.number, None), context=Context())
        return task

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise Stuck("nothing is ready and no timer is set")
            self.now = max(self.now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self.now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        self.steps += len(ready)
        if self.steps > STEPS_MAX:
            raise Stuck(f"more than {STEPS_MAX} steps: something never waits")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)
            if process is not None and not process.alive:
                continue
            if process is not None and process.stopped:
                process.held.append(handle)
                continue
            handle._run()

    def go_on(self, process: SimulatedProcess) -> None:
        """Continue a stopped process: everything that came meanwhile happens now."""
        process.stopped = False
        self._ready.extend(process.held)
        process.held.clear()

    def _write_to_self(self) -> None:
        """Nobody waits for input: there are no threads and no sockets."""

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of killed processes never end, and that is right."""


def play(loop: VirtualLoop, body: Coroutine[Any, Any, T], everyone: list[SimulatedProcess]) -> T:
    """Run a body to its end, then throw away what is left without letting it do anything."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(body)
    finally:
        asyncio.set_event_loop(None)
        for process in everyone:
            bury(process)
        _forget(loop.stray_tasks)
        loop.close()


def bury(process: SimulatedProcess) -> None:
    """Throw away what is left of a process. What its cleanup calls never runs."""
    process.alive = False
    process.context.run(_forget, process.tasks)
    process.held.clear()


def _forget(tasks: dict[int, asyncio.Task[Any]]) -> None:
    heard, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for task in list(tasks.values()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                task.get_coro().close()
            # The scopes of a task that never ended would keep it for ever.
            _task_states.pop(task, None)
        tasks.clear()
    finally:
        sys.unraisablehook = heard
