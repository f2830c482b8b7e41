"""Teams that files describe, as commands bring them up and down."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import anyio

from bullpen.agents.launching import Spawned
from bullpen.app import Settings
from bullpen.cli.plan_view import show_plan
from bullpen.cli.policy_options import CAN_ASK
from bullpen.cli.render import Page
from bullpen.cli.watch_run import Start
from bullpen.errors import Invalid
from bullpen.raising import Wish, bring_up, start
from bullpen.rehearsing import rehearse
from bullpen.teamfile.reading import TeamFile, read_team_file
from bullpen.unattended.outcome import Outcome
from bullpen.unattended.until import DONE, read_until


class TeamFiles:
    """Reads team files, and starts what they describe."""

    def __init__(
        self, settings: Settings, page: Page, watched: Callable[[str, Start], Outcome]
    ) -> None:
        self._settings = settings
        self._page = page
        # Does what takes long while somebody watches.
        self._watched = watched

    def name_in(self, path: str) -> str:
        """The name of the team that a file describes."""
        return self._read(path).team.name

    def follow(
        self,
        path: str,
        *,
        cwd: str,
        attended: bool,
        timeout_s: float | None = None,
        until: str | None = None,
    ) -> Outcome:
        """Bring a team up, and follow it to its end."""
        end = DONE if until is None else read_until(until, now=datetime.now().astimezone())
        wish = Wish(self._read(path), cwd, attended=attended, timeout_s=timeout_s, until=end)
        self._warn(wish)
        return self._watched(
            wish.file.team.goal or f"The tasks of {path}",
            lambda watch: bring_up(self._settings, wish, watch),
        )

    def start(self, path: str, *, cwd: str, attended: bool) -> tuple[str, list[Spawned]]:
        """Bring a team up and leave it to itself; its name, and who was started."""
        wish = Wish(self._read(path), cwd, attended=attended)
        self._warn(wish)
        return wish.file.team.name, anyio.run(start, self._settings, wish)

    def rehearse(self, path: str, *, cwd: str, attended: bool) -> int:
        """Show what a file would do; the exit code, 2 if it could not be started."""
        wish = Wish(self._read(path), cwd, attended=attended)
        self._warn(wish)
        plan = anyio.run(rehearse, self._settings, wish)
        show_plan(self._page, plan, wish.file.budget)
        self._page.flush()
        return 2 if plan.problems else 0

    def _read(self, path: str) -> TeamFile:
        file = read_team_file(Path(path).absolute())
        named = self._settings.team if self._settings.team_source == "option" else None
        if named not in (None, file.team.name):
            raise Invalid(
                f"{path} describes the team {file.team.name!r}, not {named!r}.",
                remedy="Leave --team out, or rename the team in the file.",
            )
        return file

    def _warn(self, wish: Wish) -> None:
        """Say whose questions nobody will answer."""
        silent = [
            member.name
            for member in wish.file.members
            if member.approver is None and not member.rules.allow and member.mode in CAN_ASK
        ]
        if silent and not wish.attended:
            self._page.warn(
                f"there is no terminal, so what {', '.join(silent)} would have to ask for is"
                " denied. Give them rules, a mode or an approver in the file."
            )
