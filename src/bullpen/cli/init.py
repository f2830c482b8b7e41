"""`bullpen init`: a team file to begin with; `bullpen schema`: what editors check it with."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session

Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR", help="Where to write it; the current directory.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "init",
        examples=(
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
        str, typer.Option(metavar="NAME", help="The program that the members are.")
    ] = "native",
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model that they think with.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the files that are there already.")
    ] = False,
) -> None:
    """Write a team file with comments, ready to be tried.

    The branch and the command that runs the tests are taken from what is in the directory. With
    --driver scripted no model is asked: a script plays all members.
    """
    if list_them:
        session.starters.list()
        return
    if template is None:
        raise typer.BadParameter("name a template with --template: see bullpen init --list.")
    session.refuse_agents("make a team file")
    session.starters.make(folder, template=template, driver=driver, model=model, force=force)


def schema(session: Session) -> None:
    """Print the JSON Schema of team files, for editors."""
    session.starters.schema()
