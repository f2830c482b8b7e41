"""`bullpen doctor`: find damage, and mend it."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session

_LEFT_OPEN = 1


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "doctor",
        examples=("bullpen doctor", "bullpen doctor --fix", "bullpen doctor --all --json"),
    )(doctor)


def doctor(
    session: Session,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All teams, and what belongs to none.")
    ] = False,
) -> None:
    """Look for damage in a team. Exits with 1 if some is left."""
    findings = session.examine(everything=everything, fix=fix)
    session.show.findings(findings, fix=fix)
    if not all(finding.fixed for finding in findings):
        raise typer.Exit(_LEFT_OPEN)
