"""`bullpen report`: one page of a run, to keep or to attach to a pull request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import option
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.output.page_file import Form, form_of, write_page
from bullpen.doors.cli.session import Session
from bullpen.doors.report.markdown import markdown_page
from bullpen.doors.report.page import html_page
from bullpen.doors.report.run_facts import run_of
from bullpen.doors.report.saved import saved_events
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import now_ms
from bullpen.team.team import Team

HTML_FILE = "report.html"


@examples(
    "bullpen report -t night -o night.html",
    "bullpen report -t night --format md > comment.md",
    "bullpen report --events saved.json -o night.html",
)
def report(
    session: Session,
    *,
    output: Annotated[
        str | None,
        option(
            "File to write [default: standard output, or report.html at a terminal]",
            "FILE",
            "-o",
            "--output",
        ),
    ] = None,
    form: Annotated[
        Form | None,
        option("Output format [default: by the name of FILE, or html]", None, "--format"),
    ] = None,
    events: Annotated[
        str | None,
        option(
            "Read events saved by `bullpen events --json` instead of a team", "FILE", "--events"
        ),
    ] = None,
) -> None:
    """Write a report of a run as HTML or Markdown.

    The page stands alone: no scripts, nothing to download. It is made from the team's log, so you
    can write it during a run or after it.
    """
    told = _saved(events) if events is not None else session.with_team(_events)
    if output is None and form != "md" and not session.json and is_terminal(sys.stdout):
        # A page of HTML says nothing to a person at a terminal.
        output = HTML_FILE
    chosen = form_of(form, output)
    page = _page(told, chosen)
    if output is None:
        if session.json:
            session.page.value("report/1", {"format": chosen, "page": page})
            return
        # As it is, and whole: the page of a terminal would wrap it.
        typer.echo(page, nl=False)
        return
    write_page(session, output, page, chosen)


async def _events(team: Team) -> list[Event]:
    return list(await team.events())


def _saved(name: str) -> list[Event]:
    if "\0" in name:
        raise typer.BadParameter("that is not a valid file name.")
    return saved_events(Path(name))


def _page(told: list[Event], chosen: Form) -> str:
    run = run_of(told, now_ms=now_ms())
    return html_page(run) if chosen == "html" else markdown_page(run)
