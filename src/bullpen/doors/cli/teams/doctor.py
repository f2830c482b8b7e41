"""`bullpen doctor`: find and fix damage."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio
import typer

from bullpen.agents.supervisor.sandbox_probes.examine import examine_sandbox
from bullpen.app.doctor import doctor as examine
from bullpen.app.stores import resolve_team
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag
from bullpen.doors.cli.output.probe_view import show_probes
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session

_LEFT_OPEN = 1


@examples("bullpen doctor", "bullpen doctor --fix", "bullpen doctor --sandbox")
def doctor(
    session: Session,
    *,
    fix: Annotated[bool, flag("Fix what can be fixed", "--fix")] = False,
    everything: Annotated[
        bool, flag("Check all teams and files that belong to none", "--all")
    ] = False,
    sandbox: Annotated[
        bool, flag("Prove the sandbox: try to break out of it in every way", "--sandbox")
    ] = False,
) -> None:
    """Find and fix damage in a team.

    Exits with 1 if damage remains, or if something got out of the sandbox.
    """
    if sandbox:
        if fix or everything:
            raise typer.BadParameter("--sandbox cannot be combined with --fix or --all.")
        if not show_probes(session.page, examine_sandbox()):
            raise typer.Exit(_LEFT_OPEN)
        return
    team = None
    if not everything:
        # What is examined, and perhaps changed, is not guessed from the directory.
        team = session.with_teams(partial(resolve_team, settings=session.settings))
    findings = anyio.run(examine, session.settings, team, fix)
    RecordViews(session.page).findings(findings, fix=fix)
    if not all(finding.fixed for finding in findings):
        raise typer.Exit(_LEFT_OPEN)
