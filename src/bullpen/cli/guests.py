"""Agents of ours in the teams of Claude Code, as commands show them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from bullpen import joining
from bullpen.agents.backends.base import Launch
from bullpen.app import settings_from
from bullpen.joining import CONFIG_DIR, ClaudeSession, Left
from bullpen.office import Office, open_office
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.times import iso
from bullpen.store.clock import now_ms

if TYPE_CHECKING:
    from bullpen.cli.session import Session
    from bullpen.view.transcript import Tail

_LOOK_S = 0.2
_BROKEN = ("failed", "lost")


class Guests:
    """Guests in one home of Claude Code: the one that was named, else the user's own."""

    def __init__(self, session: Session, *, home: str | None) -> None:
        self._session = session
        self._page = session.page
        named = home or os.environ.get(CONFIG_DIR) or "~/.claude"
        # Whoever lives there is no agent of this process: who it is, nobody has to say.
        self._settings = settings_from({"HOME": os.path.expanduser("~")}, home=named)

    def join(
        self,
        name: str,
        which: str | None,
        asked: Mapping[str, Any],
        *,
        mode: str | None,
        stated: dict[str, Any],
        project_settings: bool,
        detach: bool,
        wait: float | None,
    ) -> int:
        """Have an agent join a session, and show what it does until it leaves; the exit code."""
        policy = self._session.policy({**joining.ASKS_THE_LEAD, **stated})

        async def run() -> int:
            async with open_office(self._settings) as office:
                there = joining.chosen(
                    await joining.sessions(office.teams), which, home=self._settings.home
                )
                spec = await office.spec(
                    **asked, mode=mode, policy=policy, project_settings=project_settings
                )
                return await self._guest(office, there, name, spec, detach=detach, wait=wait)

        return anyio.run(run)

    async def _guest(
        self,
        office: Office,
        there: ClaudeSession,
        name: str,
        spec: AgentSpec,
        *,
        detach: bool,
        wait: float | None,
    ) -> int:
        began = iso(now_ms())
        await joining.enter(office, there.team, name, spec, ready_s=wait)
        self._joined(there, name, detach=detach)
        if detach:
            return 0
        tail = self._session.tail(await office.supervisor(there.team).transcript(name))
        left = await self._until_it_left(office, there.team, name, tail, began)
        self._show(tail, began)
        self._left(there, left)
        return 1 if left.end in _BROKEN else 0

    async def _until_it_left(
        self, office: Office, team: str, name: str, tail: Tail, began: str
    ) -> Left:
        """Show what a guest does until it has left; a signal makes it leave."""
        told_to_leave = True
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as staying:
                await group.start(_until_told, staying)
                group.start_soon(self._show_on, tail, began)
                left = await joining.stay(office, team, name)
                told_to_leave = False
            if told_to_leave:
                left = await joining.leave(office, team, name, reason="it was told to leave")
            group.cancel_scope.cancel()
        return left

    def _joined(self, there: ClaudeSession, name: str, *, detach: bool) -> None:
        for warning in joining.warnings(there, name):
            self._page.warn(warning)
        if self._page.json:
            self._page.json_line({"kind": "joined", "name": name, "team": there.team})
            return
        home = self._settings.home
        how = f"bullpen stop {name} -t {there.team} --home {home}" if detach else "Ctrl-C"
        where = f" in {there.cwd}" if there.cwd else ""
        self._page.line(f"{name} has joined {there.team}{where}. It leaves with: {how}")
        self._page.flush()

    def _left(self, there: ClaudeSession, left: Left) -> None:
        if self._page.json:
            about = {"name": left.name, "team": there.team, "end": left.end, "cause": left.cause}
            self._page.json_line({"kind": "left", **about})
            return
        self._page.line(f"{left.name} has left {there.team} ({left.end}): {left.cause}")

    async def _show_on(self, tail: Tail, began: str) -> None:
        while True:
            self._show(tail, began)
            await anyio.sleep(_LOOK_S)

    def _show(self, tail: Tail, began: str) -> None:
        """Show what is new, but nothing of an earlier guest of that name."""
        if tail.begun:
            rows = [row for row in tail.more() if row.get("time", "") >= began]
            self._session.show_transcript.rows(rows)
            self._page.flush()

    def take_place(self, words: list[str]) -> NoReturn:
        """Become the teammate that these words of Claude Code are about."""
        claim = joining.claim_of(words)
        for flag in claim.ignored:
            self._page.warn(f"{flag} means nothing to Bullpen and is left out.")
        bridge = joining.read_bridge(settings_from(os.environ).home, os.environ)

        async def register() -> Launch:
            async with open_office(self._settings) as office:
                return await joining.take_place(office, claim, bridge, cwd=str(Path.cwd()))

        launch = anyio.run(register)
        # The same process, so that the pane that the lead knows is the agent's.
        os.execve(launch.argv[0], launch.argv, dict(launch.env))  # noqa: S606


async def _until_told(
    staying: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        task_status.started()
        async for _ in received:
            staying.cancel()
