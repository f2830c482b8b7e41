"""`bullpen init`: a team file to begin with; `bullpen schema`: what editors check it with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.runs.starters import Starters, forge_page
from bullpen.doors.cli.session import Session
from bullpen.runs.teamfile.templates import FORGE_TEMPLATE, TemplateChoice

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
    "bullpen init --forge",
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
    goal: Annotated[str | None, option("What to review, or the bug to explain", "TEXT")] = None,
    forge: Annotated[
        bool, flag("Take the issues of the forge this clone came from", "--forge")
    ] = False,
    budget: BudgetOptions,
    force: Annotated[bool, flag("Overwrite existing files", "--force")] = False,
) -> None:
    """Write a team file for this project.

    Looks for git, tmux, API keys, agent programs, the branch and the test command, then asks what
    you want. With --template it asks nothing. With --driver scripted, members are simulated by a
    script. --json alone prints what was found and writes nothing. With --forge, the template is
    backlog, and its tasks are issues.
    """
    if list_them:
        Starters(session.page).show_templates()
        return
    page = forge_page(folder) if forge else None
    if page is not None and template is None:
        template = FORGE_TEMPLATE
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
        goal=goal,
        forge=page,
    )
    if asking:
        Starters(session.page).ask(session, folder, stated, driver=driver, tests=tests, force=force)
    else:
        Starters(session.page).make(session, folder, stated, tests=tests, force=force)
