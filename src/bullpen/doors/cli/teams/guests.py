"""Bullpen agents in the teams of Claude Code."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.backend import Launch
from bullpen.app.app import App, open_app
from bullpen.app.settings import settings_from
from bullpen.doors.cli.agents.transcript_view import TranscriptViews
from bullpen.doors.cli.options.policy import policy_of
from bullpen.doors.cli.session import Session
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import iso, now_ms
from bullpen.runs import guests
from bullpen.runs.guests import CONFIG_DIR, ClaudeSession, Left
from bullpen.view.transcript import TranscriptTail

_LOOK_S = 0.2
_BROKEN = ("failed", "lost")


class Guests:
    """Guests in one home of Claude Code: the one that was named, else the user's own."""

    def __init__(self, session: Session) -> None:
        self._page = session.page
        self._transcript = TranscriptViews(session.page)
        named = session.home or os.environ.get(CONFIG_DIR) or "~/.claude"
        # That home has its own identities: those of this process do not apply.
        self._settings = settings_from({"HOME": os.path.expanduser("~")}, home=named)

    def join(
        self,
        name: str,
        which: str | None,
        request: SpawnRequest,
        *,
        stated: dict[str, Any],
        detach: bool,
        wait: float | None,
    ) -> int:
        """Add an agent to a session and show what it does until it leaves; return the exit code."""
        policy = policy_of({**guests.ASKS_THE_LEAD, **stated})

        async def run() -> int:
            async with open_app(self._settings) as app:
                there = guests.chosen(
                    await guests.sessions(app.teams), which, home=self._settings.home
                )
                spec = await app.resolve(replace(request, policy=policy))
                return await self._guest(app, there, name, spec, detach=detach, wait=wait)

        return anyio.run(run)

    async def _guest(
        self,
        app: App,
        there: ClaudeSession,
        name: str,
        spec: AgentSpec,
        *,
        detach: bool,
        wait: float | None,
    ) -> int:
        began = iso(now_ms())
        await guests.enter(app, there.team, name, spec, ready_s=wait)
        self._joined(there, name, detach=detach)
        if detach:
            return 0
        tail = TranscriptTail(await app.supervisor(there.team).transcript(name))
        left = await self._until_it_left(app, there.team, name, tail, began)
        self._show(tail, began)
        self._left(there, left)
        return 1 if left.end in _BROKEN else 0

    async def _until_it_left(
        self, app: App, team: str, name: str, tail: TranscriptTail, began: str
    ) -> Left:
        """Show what a guest does until it leaves; a signal makes it leave."""
        told_to_leave = True
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as staying:
                await group.start(_until_told, staying)
                group.start_soon(self._show_on, tail, began)
                left = await guests.stay(app, team, name)
                told_to_leave = False
            if told_to_leave:
                left = await guests.leave(app, team, name, reason="it was told to leave")
            group.cancel_scope.cancel()
        return left

    def _joined(self, there: ClaudeSession, name: str, *, detach: bool) -> None:
        for warning in guests.warnings(there, name):
            self._page.warn(warning)
        if self._page.json:
            if detach or self._page.jsonl:
                self._page.value("joined/1", {"kind": "joined", "name": name, "team": there.team})
            return
        home = self._settings.home
        how = f"bullpen stop {name} -t {there.team} --home {home}" if detach else "Ctrl-C"
        where = f" in {there.cwd}" if there.cwd else ""
        self._page.line(f"{name} joined {there.team}{where}. To make it leave: {how}")
        self._page.flush()

    def _left(self, there: ClaudeSession, left: Left) -> None:
        if self._page.json:
            about = {"name": left.name, "team": there.team, "end": left.end, "cause": left.cause}
            self._page.value("left/1", {"kind": "left", **about})
            return
        self._page.line(f"{left.name} left {there.team} ({left.end}): {left.cause}")

    async def _show_on(self, tail: TranscriptTail, began: str) -> None:
        while True:
            self._show(tail, began)
            await anyio.sleep(_LOOK_S)

    def _show(self, tail: TranscriptTail, began: str) -> None:
        """Show what is new, but nothing of an earlier guest of that name."""
        if tail.begun and (self._page.jsonl or not self._page.json):
            rows = [row for row in tail.more() if row.get("time", "") >= began]
            self._transcript.rows(rows)
            self._page.flush()

    def take_place(self, words: list[str]) -> NoReturn:
        """Replace this process by the teammate that Claude Code asked for."""
        claim = guests.claim_of(words)
        for flag in claim.ignored:
            self._page.warn(f"ignored unknown option {flag}.")
        bridge = guests.read_bridge(settings_from(os.environ).home, os.environ)

        async def register() -> Launch:
            async with open_app(self._settings) as app:
                return await guests.take_place(app, claim, bridge, cwd=str(Path.cwd()))

        launch = anyio.run(register)
        # Keep the process, so that the pane the lead knows is the agent's.
        os.execve(launch.argv[0], launch.argv, dict(launch.env))  # noqa: S606


async def _until_told(
    staying: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        task_status.started()
        async for _ in received:
            staying.cancel()
