"""`bullpen replay`: a recorded run again, without a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bullpen.agents.tapes.departures import Departure
from bullpen.app.steady_loop import run_steadily
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.limits import Seconds
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.spawn import Cwd
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import clock
from bullpen.doors.cli.session import Session, directory
from bullpen.runs.tapes.replay import TIMEOUT_S, Replayed, ReplayRequest, replay
from bullpen.runs.watch.outcome import Progress
from bullpen.view.text import Cell, one_line


@examples(
    "bullpen replay night.tape",
    "bullpen replay night.tape --with TEAM2.toml",
    "bullpen replay bug.tape --trust --cwd ~/project",
)
def replay_tape(
    session: Session,
    tape: Annotated[str, argument("The tape that --record wrote", "TAPE")],
    *,
    team_file: Annotated[
        str | None, option("Team file to use instead of the tape's goal or file", "FILE", "--with")
    ] = None,
    cwd: Cwd = None,
    trust: Annotated[
        bool, flag("Allow what the tape allows: its mode, rules, commands and answers", "--trust")
    ] = False,
    timeout: Seconds = None,
) -> None:
    """Run a recorded run again, without a model or a key.

    The agents, their tools, the team and git are real, in a copy of the project that is removed at
    the end. The answers come from the tape as long as each request is as it was. Where one is not,
    the replay shows what differs and stops.

    A tape may come from anybody: what it would allow its agents, you have to allow with --trust.

    Exit codes: 0 if the run took the path of the tape, 1 if it left it, 2 if the tape is refused.
    """
    page = session.page
    request = ReplayRequest(
        Path(tape),
        Path(directory(cwd)),
        os.environ,
        team_file=None if team_file is None else Path(team_file),
        trust=trust,
        timeout_s=timeout or TIMEOUT_S,
    )

    async def run() -> Replayed:
        return await replay(request, lambda progress: _shown(page, progress))

    replayed = run_steadily(run)
    _told(page, tape, replayed)
    raise typer.Exit(replayed.code)


def _shown(page: Page, progress: Progress) -> None:
    if page.json:
        return
    for line in progress.news:
        page.line(f"{clock()}  {line}")
    page.flush()


def _told(page: Page, tape: str, replayed: Replayed) -> None:
    left = replayed.departure
    if page.json:
        page.value(
            "replay/1",
            {
                "tape": tape,
                "calls": replayed.calls,
                "made": replayed.made,
                "departure": None if left is None else left.row,
                "told": list(replayed.told),
            },
        )
        return
    for note in replayed.told:
        page.warn(note)
    if left is None:
        how = f"The run took the path of the tape: {replayed.made} calls."
        page.line(Cell(how, "good"))
        return
    _show_departure(page, left)


def _show_departure(page: Page, left: Departure) -> None:
    page.line(Cell(f"{left.sentence}.", "bad"))
    for line in left.lines:
        page.line(f"  {one_line(line)}")
