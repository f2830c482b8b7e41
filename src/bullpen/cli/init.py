"""`bullpen init`: a team file to begin with; `bullpen schema`: what editors check it with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, is_terminal

Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR", help="Where to write it; the current directory.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """What the team may use at most."""

    budget_usd: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.01, help="Stop after so many dollars.", show_default=False),
    ] = None
    budget_turns: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Stop after so many turns.", show_default=False),
    ] = None


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "init",
        examples=(
            "bullpen init",
            "bullpen init --list",
            "bullpen init --template backlog",
            "bullpen init ./try --template review --driver scripted",
        ),
    )(init)
    command(app, "schema", examples=("bullpen schema > team-file.schema.json",))(schema)


def init(
    session: Session,
    folder: Directory = None,
    *,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="review, backlog, specialists or debug: see --list.",
            show_default=False,
        ),
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show the templates there are.")
    ] = False,
    driver: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The program that the members are. [default: native]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model that they think with.", show_default=False),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="How many there are beside a lead.", show_default=False
        ),
    ] = None,
    tests: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="What runs the tests; - for nothing. [default: by the look of the files]",
            show_default=False,
        ),
    ] = None,
    budget: BudgetOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the files that are there already.")
    ] = False,
) -> None:
    """Ask what you have and want, and write a team file that works.

    It looks for git, tmux, keys of models, agent programs, the branch and the command that runs
    the tests. With --template nothing is asked. With --driver scripted no model is: a script
    plays all members. --json alone shows what was found, and writes nothing.
    """
    if list_them:
        session.starters.show_templates()
        return
    asking = template is None and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    if template is None and session.json:
        session.starters.found(folder)
        return
    if template is None and not asking:
        raise typer.BadParameter(
            "there is no terminal to ask at, so name a template with --template:"
            " see bullpen init --list."
        )
    session.refuse_agents("make a team file")
    stated = session.starters.choice(
        template, driver=driver, model=model, members=members, budget=budget
    )
    if asking:
        session.starters.ask(session, folder, stated, driver=driver, tests=tests, force=force)
    else:
        session.starters.make(folder, stated, tests=tests, force=force)


def schema(session: Session) -> None:
    """Print the JSON Schema of team files, for editors."""
    session.starters.schema()
