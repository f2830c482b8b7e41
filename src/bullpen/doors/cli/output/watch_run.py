"""Watching a goal being pursued: beside a screen, in plain lines, or in lines of JSON."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import TaskStatus

from bullpen.app.steady_loop import run_steadily
from bullpen.doors.cli.output.next_steps import held, next_steps
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.text import say
from bullpen.doors.terminal.closed import INTERRUPTED, endings, unless_closed
from bullpen.protocol.presence import ENDED
from bullpen.protocol.request import Request
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.agents.verdict import MANNERS
from bullpen.team.requests.handles import handles
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.news import folded, planner
from bullpen.view.task_state import task_states
from bullpen.view.text import Cell, one_line, shortened

_HELD_S = 1.0
"""How long a line that may continue is held back."""

Start = Callable[[Callable[[Progress], None]], Awaitable[Outcome]]
Show = Callable[[Start], Awaitable[Outcome | None]]


class Watcher:
    """Says what happens on a page, a line for each happening."""

    def __init__(self, page: Page, goal: str, *, elsewhere: str = "") -> None:
        self._page = page
        self._goal = goal
        # What a command to type in another terminal must add.
        self._elsewhere = elsewhere
        self._waiting: set[str] = set()
        self._began = time.monotonic()
        self._over: float | None = None
        self._held: list[str] = []
        self._held_at = 0.0
        self.progress: Progress | None = None

    @property
    def elapsed_s(self) -> float:
        """How long it has been watched."""
        return (time.monotonic() if self._over is None else self._over) - self._began

    def over(self) -> None:
        """Take note that the run has ended: somebody may still read its screen."""
        self._over = time.monotonic()

    @property
    def running(self) -> list[str]:
        """The agents that had not ended when they were last looked at."""
        agents = self.progress.agents if self.progress is not None else []
        return [view.name for view in agents if view.driver and view.state not in ENDED]

    def saw(self, progress: Progress) -> None:
        """Take note of how far the team is."""
        if self.progress is None:
            self._begins(progress)
        self.progress = progress
        for text in progress.news:
            self._happened(progress.team, text)
        for happening in progress.happenings:
            self._line("happening/1", {"kind": "happening", **happening.row})
        pending = progress.snapshot.pending
        short = handles(pending)
        for request in pending:
            if request.id not in self._waiting:
                self._asked(progress.team, request, short[request.id])
        self._waiting = set(short)
        if time.monotonic() - self._held_at > _HELD_S:
            self._let_go()

    def stopping(self) -> None:
        """Say that the agents are being stopped."""
        say("Stopping the agents. Press Ctrl-C again to quit at once.")

    def close(self) -> None:
        """Say what was kept back."""
        self._let_go()

    def ended(self, outcome: Outcome, *, next_steps: Sequence[str]) -> None:
        """Say how it ended, and what to do next."""
        if self._page.json:
            self._page.value("outcome/1", {"kind": "outcome", **outcome_json(outcome)})
            return
        if outcome.note is not None:
            self._page.line(Cell(outcome.note, "attention"))
        account = outcome.account
        manner = MANNERS[outcome.status]
        after = "in" if outcome.status == "done" else "after"
        summary = f": {outcome.summary}" if outcome.summary else "."
        took = words.duration(self.elapsed_s)
        self._page.line(Cell(f"{manner.heading} {after} {took}{summary}", manner.tone))
        self._page.fields(
            [
                ("  note" if outcome.code == 0 else "  cause", outcome.cause or ""),
                ("  team", outcome.team),
                ("  tasks", self._tasks(outcome)),
                ("  changed", (None if account is None else account.changed) or ""),
                ("  used", words.used(outcome.usage)),
                ("  still running", Cell(", ".join(self.running), "attention")),
            ]
        )
        for need in account.needs if account is not None else self._needs():
            # A block stays indented where it is broken.
            self._page.block(f"needs you: {one_line(need)}", indent=2, style="attention")
        for left in account.worktrees if account is not None and next_steps else ():
            branch = "" if left.branch is None else f" (branch {left.branch})"
            self._page.line(f"  worktree left: {left.path}{branch}")
        if next_steps:
            self._page.line("Try next:")
            for step in next_steps:
                self._page.line(f"  {step}")

    def _tasks(self, outcome: Outcome) -> str:
        """How many tasks are in which state, in the words of the screen."""
        counts: Mapping[str, int] = outcome.tasks
        if self.progress is not None:
            counts = Counter(task_states(self.progress.snapshot.tasks).values())
        return ", ".join(f"{n} {state.replace('_', ' ')}" for state, n in counts.items() if n)

    def _needs(self) -> list[str]:
        """What a person should know of a run that ended before it was summed up."""
        waits = held(self.progress)
        if self.progress is None or waits is None:
            return []
        return [f"{waits}: bullpen merge log -t {self.progress.team}{self._elsewhere}"]

    def _begins(self, progress: Progress) -> None:
        if self._page.json:
            self._line("goal/1", {"kind": "goal", "team": progress.team, "text": self._goal})
        else:
            self._page.line(f"{clock()}  team {progress.team}: {shortened(self._goal)}")
            self._page.flush()

    def _happened(self, team: str, text: str) -> None:
        if self._page.json:
            now = datetime.now().astimezone().isoformat(timespec="milliseconds")
            self._line("news/1", {"kind": "news", "time": now, "team": team, "text": text})
            return
        who = planner(text)
        if self._held and planner(self._held[-1]) != who:
            self._let_go()
        self._held.append(text)
        self._held_at = time.monotonic()
        if who is None:
            self._let_go()

    def _asked(self, team: str, request: Request, handle: str) -> None:
        """Say once what waits for an answer, and what to type."""
        if self._page.json:
            about = {"team": team, "handle": handle, "request": request.raw}
            self._line("asked/1", {"kind": "request", **about})
            return
        self._let_go()
        typed = f" -> bullpen approve {handle}{self._elsewhere}"
        said = sentences.waits(request)
        how = typed if sentences.is_for_people(request) else ""
        self._page.line(Cell(f"{clock()}  {said}{how}", "attention"))
        self._page.flush()

    def _line(self, schema: str, value: dict[str, Any]) -> None:
        """Write a line for programs, if they want every line."""
        if self._page.jsonl:
            self._page.json_line(schema, value)

    def _let_go(self) -> None:
        """Write what was kept back; what somebody planned in one go is one line."""
        if not self._held:
            return
        for text in folded(self._held):
            self._page.line(f"{clock()}  {text}")
        self._held.clear()
        self._page.flush()


def clock() -> str:
    """The time of day."""
    return datetime.now().astimezone().strftime("%H:%M:%S")


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """How a goal ended, as a JSON object."""
    return {
        "code": outcome.code,
        "status": outcome.status,
        "summary": outcome.summary,
        "team": outcome.team,
        "usage": outcome.usage.raw,
        "tasks": dict(outcome.tasks),
        "cause": outcome.cause,
        "note": outcome.note,
        "account": None if outcome.account is None else outcome.account.row,
    }


def watch(watcher: Watcher, start: Start, *, elsewhere: str | None) -> Outcome:
    """Do something that takes long while a watcher says how it goes; how it ended.

    The first Ctrl-C cancels it, and it may take its time to end in order; the second one ends
    this process at once. `elsewhere` is what commands to try next must add, None if there are none.
    """
    try:
        outcome = run_steadily(_pursue, watcher, start) or _interrupted(watcher)
    finally:
        with contextlib.suppress(BrokenPipeError), unless_closed():
            watcher.close()
    with unless_closed():
        watcher.ended(outcome, next_steps=_next_steps(outcome, elsewhere, watcher))
    return outcome


def watch_on_screen(
    watcher: Watcher, show: Show, start: Start, *, elsewhere: str | None
) -> Outcome:
    """The same beside a screen, which heeds the signals: the watcher only says how it ended."""

    async def noted(shown: Callable[[Progress], None]) -> Outcome:
        def saw(progress: Progress) -> None:
            watcher.progress = progress
            shown(progress)

        outcome = await start(saw)
        watcher.over()
        return outcome

    outcome = run_steadily(show, noted) or _interrupted(watcher)
    with unless_closed():
        watcher.ended(outcome, next_steps=_next_steps(outcome, elsewhere, watcher))
    return outcome


def _interrupted(watcher: Watcher) -> Outcome:
    """How it ended when it was cancelled before it could say so itself."""
    progress = watcher.progress
    tasks = progress.snapshot.tasks if progress is not None else ()
    return Outcome(
        code=INTERRUPTED,
        status="interrupted",
        summary="",
        team=progress.team if progress is not None else "",
        usage=words.total(progress.agents if progress is not None else ()),
        tasks=dict(Counter(task.status for task in tasks)),
        cause=None,
    )


def _next_steps(outcome: Outcome, elsewhere: str | None, watcher: Watcher) -> list[str]:
    return next_steps(outcome, elsewhere, watcher.progress, watcher.running)


async def _pursue(watcher: Watcher, start: Start) -> Outcome | None:
    outcome: Outcome | None = None
    gone: BrokenPipeError | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as work:

            def saw(progress: Progress) -> None:
                nonlocal gone
                try:
                    with unless_closed(work.cancel):
                        watcher.saw(progress)
                except BrokenPipeError as error:
                    # The agents must not go on when nobody leads them: it ends as with Ctrl-C.
                    if gone is None:
                        say("Nobody reads the output any more, so the agents are stopped.")
                    gone = error
                    work.cancel()

            await tasks.start(_heed_signals, watcher, work)
            outcome = await start(saw)
        tasks.cancel_scope.cancel()
    if gone is not None:
        raise gone
    return outcome


async def _heed_signals(
    watcher: Watcher, work: CancelScope, *, task_status: TaskStatus[None]
) -> None:
    with endings() as signals:
        task_status.started()
        async for number in signals:
            if work.cancel_called and number == signal.SIGHUP:
                continue
            if work.cancel_called:
                with contextlib.suppress(BrokenPipeError), unless_closed():
                    watcher.close()
                team = f" -t {watcher.progress.team}" if watcher.progress is not None else ""
                say(f"Quit at once; agents may still be running. See: bullpen ps{team}")
                with contextlib.suppress(OSError, AttributeError):
                    sys.stdout.flush()
                os._exit(INTERRUPTED)
            watcher.stopping()
            work.cancel()
