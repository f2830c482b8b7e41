"""`bullpen merge`: finished work on its way to the target branch."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session

noun = Noun(
    "Look at the merge queue, be it, and say where work goes.",
    examples=("bullpen merge list", "bullpen merge set --target main --gate 'make test'"),
)


@command(noun.commands, "list", examples=("bullpen merge list", "bullpen merge list --json"))
def list_line(session: Session) -> None:
    """Show the line: what waits, what is tried, what came back and why."""
    session.merges.show_line()


@command(
    noun.commands,
    "log",
    examples=("bullpen merge log", "bullpen merge log 3", "bullpen merge log --json"),
)
def log(
    session: Session,
    task_id: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK",
            help="Only what was done with the work of this task.",
            show_default=False,
            autocompletion=complete.task_ids,
        ),
    ] = None,
) -> None:
    """Show what the queue did, in order: tries, bisections, landings, returns.

    Of each task the last 40 steps are kept.
    """
    session.merges.show_log(task_id)


@command(
    noun.commands,
    "run",
    examples=("bullpen merge run", "bullpen merge run --once", "bullpen merge run -t alpha"),
)
def run(
    session: Session,
    *,
    once: Annotated[bool, typer.Option("--once", help="Take one step only.")] = False,
) -> None:
    """Be the merge queue until nothing waits.

    Whoever brought the team up with `bullpen up` or `bullpen run` is its queue already: this is
    for teams without. What keeps work waiting, such as changes of yours that are in the way, is
    told and tried again.
    """
    session.merges.run(once=once)


@command(
    noun.commands,
    "set",
    examples=(
        "bullpen merge set",
        "bullpen merge set --target main --gate 'make test'",
        "bullpen merge set --batch 8 --retries 2",
        "bullpen merge set --after 'git push origin \"$BULLPEN_TARGET\"'",
    ),
)
def set_(
    session: Session,
    *,
    target: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="The branch that work goes to.", show_default=False),
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="What must succeed on the target after each step; '' for nothing.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=64, help="So many are tried together.", show_default=False
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=10, help="So often what is red is tried again.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="What is run after the target moved; '' for nothing.",
            show_default=False,
        ),
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="What makes the tree ready that work is tested in; '' for nothing.",
            show_default=False,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Show or change where finished work goes, and what must hold there.

    Without a target it is the branch that is checked out here. Only a person may do this.
    """
    session.merges.configure(
        target=target, gate=gate, batch=batch, retries=retries, after=after, setup=setup
    )
