"""`bullpen run` and `bullpen demo`: a team that pursues one goal while somebody watches."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from bullpen.cli.command import command
from bullpen.cli.policy_options import PolicyOptions
from bullpen.cli.session import Session, directory, text_or_input
from bullpen.cli.spawn_options import (
    BudgetTokens,
    BudgetUsd,
    Command,
    Cwd,
    Driver,
    Model,
    Script,
    words_of,
)
from bullpen.cli.until_option import UntilOption

Backend = Literal["in-process", "subprocess", "tmux"]


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "run",
        examples=(
            "bullpen run 'Make the tests pass'",
            "bullpen run - --backend tmux --timeout 3600 < goal.md",
            "bullpen run 'Tidy up' --delegate --mode acceptEdits --allow 'Bash(make:*)'",
            "bullpen run 'Rename the module' --mode acceptEdits --json > run.jsonl  # in CI",
            "bullpen run -t night --until done",
        ),
    )(run)
    command(app, "demo", examples=("bullpen demo", "bullpen demo --backend tmux --keep"))(demo)


def run(
    session: Session,
    goal: Annotated[
        str | None,
        typer.Argument(
            metavar="[GOAL]",
            help="What is to be reached; - reads it from input. Without one, a team goes on.",
            show_default=False,
        ),
    ] = None,
    *,
    driver: Annotated[Driver, typer.Option(help="Which program takes the turns.")] = "native",
    backend: Annotated[Backend, typer.Option(help="Where the agents run.")] = "in-process",
    model: Model = None,
    script: Script = None,
    program: Command = None,
    cwd: Cwd = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.1, help="Stop after so many seconds.", show_default=False),
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Stop after so many turns.", show_default=False),
    ] = None,
    budget_tokens: BudgetTokens = None,
    budget_usd: BudgetUsd = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the agents running when it is done.")
    ] = False,
    delegate: Annotated[
        bool, typer.Option("--delegate", help="The lead only leads; its teammates do the work.")
    ] = False,
    until: UntilOption = None,
    rights: PolicyOptions,
) -> None:
    """Give a team a goal, and watch until it is reached.

    Without GOAL, a team goes on with what it has to do: its goal and its tasks.
    Exits with 0 if all is done, 1 if the team failed, 2 if it stopped before the end.
    Ctrl-C stops the agents and keeps the team with its work; a second one ends at once.
    """
    session.refuse_agents("begin a run")
    if goal is None:
        raise typer.Exit(session.runs.go_on(None, until=until, timeout_s=timeout).code)
    text = text_or_input(goal)
    where, words = directory(cwd), words_of(program)
    policy = session.policy(rights.stated())
    if warning := rights.warning(where="an agent"):
        session.page.warn(warning)
    outcome = session.runs.run(
        lambda new: new(
            text=text,
            team=session.team,
            driver=driver,
            backend=backend,
            model=model,
            script=None if script is None else os.path.abspath(script),
            command=words,
            cwd=where,
            mode=rights.mode,
            policy=policy,
            project_settings=not rights.no_project_settings,
            delegate=delegate,
            attended=rights.attended,
            budget_turns=turns,
            budget_tokens=budget_tokens,
            budget_usd=budget_usd,
            timeout_s=timeout,
            keep=keep,
            until=session.runs.until(until),
        )
    )
    raise typer.Exit(outcome.code)


def demo(
    session: Session,
    *,
    backend: Annotated[
        Backend | None,
        typer.Option(help="Where the agents run.", show_default=False),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the team and what it made.")] = False,
) -> None:
    """Watch a small team of scripted agents at work. It needs no model and no key."""
    raise typer.Exit(session.runs.demo(backend=backend, keep=keep).code)
