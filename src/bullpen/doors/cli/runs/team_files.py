"""Teams that files describe, as commands bring them up and down."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import anyio

from bullpen.agents.supervisor.start import Spawned
from bullpen.doors.cli.options.policy import CAN_ASK
from bullpen.doors.cli.runs.plan_view import show_plan
from bullpen.doors.cli.runs.watched import opens_screen, watched
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid
from bullpen.runs.dry_run import dry_run
from bullpen.runs.tapes.recording import TapeRequest
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.teamfile.tables import ShapeChoice
from bullpen.runs.up import StartRequest, bring_up, start
from bullpen.runs.watch.outcome import Outcome
from bullpen.runs.watch.until import DONE, read_until


class TeamFileCommands:
    """Reads team files, and starts what they describe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings = session.settings
        self._page = session.page

    def name_in(self, path: str) -> str:
        """The name of the team that a file describes."""
        return self._read(path).team.name

    def follow(
        self,
        path: str,
        *,
        cwd: str,
        attended: bool,
        strict_model: bool = False,
        timeout_s: float | None = None,
        until: str | None = None,
        again: bool = False,
        shape: ShapeChoice | None = None,
        plain: bool = False,
        tape: TapeRequest | None = None,
    ) -> Outcome:
        """Bring a team up, and follow it to its end; with `plain`, in lines."""
        end = DONE if until is None else read_until(until, now=datetime.now().astimezone())
        file = self._read(path, strict_model=strict_model, shape=shape)
        self._warn(StartRequest(file, cwd, attended=attended))
        run = partial(
            bring_up,
            file,
            cwd=cwd,
            attended=attended,
            timeout_s=timeout_s,
            until=end,
            again=again,
            conversation=until is None and opens_screen(self._session, plain=plain),
            tape=tape,
        )
        return watched(
            self._session,
            file.team.goal or f"The tasks of {path}",
            lambda watch: run(settings=self._settings, watch=watch),
            elsewhere=self._session.elsewhere,
            plain=plain,
        )

    def start(
        self,
        path: str,
        *,
        cwd: str,
        attended: bool,
        strict_model: bool = False,
        shape: ShapeChoice | None = None,
    ) -> tuple[str, list[Spawned]]:
        """Bring a team up and leave it to itself; its name, and who was started."""
        file = self._read(path, strict_model=strict_model, shape=shape)
        request = StartRequest(file, cwd, attended=attended)
        self._warn(request)
        return request.file.team.name, anyio.run(start, self._settings, request)

    def dry_run(
        self, path: str, *, cwd: str, attended: bool, shape: ShapeChoice | None = None
    ) -> int:
        """Show what a team file would do; return 2 if it could not be started."""
        request = StartRequest(self._read(path, shape=shape), cwd, attended=attended)
        self._warn(request)
        plan = anyio.run(dry_run, self._settings, request)
        show_plan(self._page, plan, request.file.budget)
        self._page.flush()
        return 2 if plan.problems else 0

    def _read(
        self, path: str, *, strict_model: bool = False, shape: ShapeChoice | None = None
    ) -> TeamFile:
        file = read_team_file(Path(path).absolute())
        file = file if shape is None else file.with_shape(shape)
        file = file.strict_about_models() if strict_model else file
        named = self._settings.team if self._settings.team_source == "option" else None
        if named not in (None, file.team.name):
            raise Invalid(
                f"{path} describes the team {file.team.name!r}, not {named!r}.",
                remedy="Omit --team, or rename the team in the file.",
            )
        return file

    def _warn(self, request: StartRequest) -> None:
        """Warn about members whose requests nobody will answer."""
        silent = [
            member.name
            for member in request.file.members
            if member.approver is None and not member.rules.allow and member.mode in CAN_ASK
        ]
        if silent and not request.attended:
            self._page.warn(
                f"there is no terminal, so requests of {', '.join(silent)} are denied."
                " Give them rules, a mode or an approver in the team file."
            )
