"""`bullpen report`: one page of a run, to keep or to attach to a pull request."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session

if TYPE_CHECKING:
    from bullpen.protocol.changes import Event
    from bullpen.team.team import Team


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "report",
        examples=(
            "bullpen report -t night -o night.html",
            "bullpen report -t night --format md > comment.md",
            "bullpen report --events saved.json -o night.html",
        ),
    )(report)


def report(
    session: Session,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write it.", show_default=False
        ),
    ] = None,
    form: Annotated[
        Literal["html", "md"] | None,
        typer.Option(
            "--format",
            help="A page for browsers, or Markdown; else as FILE ends, else html.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            "--events",
            metavar="FILE",
            help="The log that was saved by `bullpen events --json`, of a team that may be gone.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one page of a run: result, tasks, timeline, words, decisions, money.

    The page is whole in itself: no script, nothing fetched. It is told from the team's log, while
    the team works or later; of a run that is over it is always the same.
    """
    told = _saved(events) if events is not None else session.with_team(_events)
    chosen = form or ("md" if output is not None and output.endswith(".md") else "html")
    page = _page(told, chosen)
    if output is None:
        if session.json:
            session.page.value({"format": chosen, "page": page})
            return
        # As it is, and whole: the page of a terminal would wrap it.
        typer.echo(page, nl=False)
        return
    path = Path(output)
    _put(path, page)
    session.page.result(
        {"path": str(path.absolute()), "format": chosen, "bytes": len(page.encode())},
        f"Wrote {output}.",
    )


async def _events(team: Team) -> list[Event]:
    return list(await team.events())


def _saved(name: str) -> list[Event]:
    from bullpen.report.saved import saved_events

    if "\0" in name:
        raise typer.BadParameter("a file cannot have that name.")
    return saved_events(Path(name))


def _page(told: list[Event], chosen: Literal["html", "md"]) -> str:
    from bullpen.report.markdown import markdown_page
    from bullpen.report.page import html_page
    from bullpen.report.run import run_of
    from bullpen.store.clock import now_ms

    run = run_of(told, now_ms=now_ms())
    return html_page(run) if chosen == "html" else markdown_page(run)


def _put(path: Path, page: str) -> None:
    """Write a file whole or not at all."""
    if "\0" in str(path):
        raise typer.BadParameter("a file cannot have that name.")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(page, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        # Whoever asked knows nothing of the file beside it.
        raise OSError(error.errno, error.strerror, str(path)) from None
