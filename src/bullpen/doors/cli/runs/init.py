"""`bullpen init`: a team file to begin with; `bullpen schema`: what editors check it with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.runs.starters import Starters
from bullpen.doors.cli.session import Session
from bullpen.runs.teamfile.templates import TemplateChoice

Directory = Annotated[
    str | None, argument("Where to write the files [default: current directory]", "DIR")
]


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """What the team may use at most."""

    budget_usd: Annotated[float | None, option("Stop after X US dollars", "X", min=0.01)] = None
    budget_turns: Annotated[int | None, option("Stop after N turns", "N", min=1)] = None


@examples(
    "bullpen init",
    "bullpen init --list",
    "bullpen init --template backlog",
    "bullpen init ./try --template review --driver scripted",
)
def init(
    session: Session,
    folder: Directory = None,
    *,
    template: Annotated[
        str | None, option("review, backlog, specialists or debug; see --list", "NAME")
    ] = None,
    list_them: Annotated[bool, flag("List the templates", "--list")] = False,
    driver: Annotated[
        str | None, option("Agent program of the members [default: native]", "NAME")
    ] = None,
    model: Annotated[str | None, option("Model to use", "MODEL")] = None,
    members: Annotated[int | None, option("Number of members besides the lead", "N", min=1)] = None,
    tests: Annotated[
        str | None, option("Command that runs the tests; - for none [default: detected]", "COMMAND")
    ] = None,
    budget: BudgetOptions,
    force: Annotated[bool, flag("Overwrite existing files", "--force")] = False,
) -> None:
    """Write a team file for this project.

    Looks for git, tmux, API keys, agent programs, the branch and the test command, then asks what
    you want. With --template it asks nothing. With --driver scripted, members are simulated by a
    script. --json alone prints what was found and writes nothing.
    """
    if list_them:
        Starters(session.page).show_templates()
        return
    asking = template is None and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    if template is None and session.json:
        Starters(session.page).found(folder)
        return
    if template is None and not asking:
        raise typer.BadParameter(
            "there is no terminal to ask at: pass --template NAME (see bullpen init --list)."
        )
    stated = TemplateChoice(
        template or "",
        driver or "native",
        model,
        members=members,
        turns=budget.budget_turns,
        usd=budget.budget_usd,
    )
    if asking:
        Starters(session.page).ask(session, folder, stated, driver=driver, tests=tests, force=force)
    else:
        Starters(session.page).make(folder, stated, tests=tests, force=force)


@examples("bullpen schema > team-file.schema.json")
def schema(session: Session) -> None:
    """Print the JSON Schema of team files.

    Editors use it to check and complete team files.
    """
    Starters(session.page).schema()
