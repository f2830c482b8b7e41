"""`bullpen run` and `bullpen demo`: a team that pursues one goal while somebody watches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from bullpen.agents.backends.available import BACKENDS
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.limits import Seconds, Tokens, Turns, Until, Usd
from bullpen.doors.cli.options.option import PLACE, argument, flag, option
from bullpen.doors.cli.options.part_names import part_named
from bullpen.doors.cli.options.policy import PolicyOptions, policy_of
from bullpen.doors.cli.options.record import Record, tape_request
from bullpen.doors.cli.options.spawn import (
    Command,
    Cwd,
    Driver,
    Effort,
    Model,
    ModelOption,
    Script,
    SmallModel,
    StrictModel,
    TeamBackend,
    words_of,
)
from bullpen.doors.cli.runs.run_to_end import RunCommands
from bullpen.doors.cli.runs.watched import Plain
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.runs.goal import Goal
from bullpen.sandbox.command import weakness


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAgents:
    """Which agents are in a team, and where they run."""

    driver: Driver = "native"
    backend: TeamBackend = "in-process"
    model: Model = None
    model_option: ModelOption = None
    small_model: SmallModel = None
    effort: Effort = None
    strict_model: StrictModel = False
    script: Script = None
    program: Command = None

    def lead(self, cwd: str, rights: PolicyOptions) -> SpawnRequest:
        """What to spawn as the lead."""
        return SpawnRequest(
            cwd=cwd,
            driver=part_named("driver", self.driver, DRIVERS),
            backend=part_named("backend", self.backend, BACKENDS),
            model=self.model,
            script=None if self.script is None else os.path.abspath(self.script),
            command=words_of(self.program),
            mode=rights.mode,
            policy=policy_of(rights.stated()),
            project_settings=not rights.no_project_settings,
            model_options=ModelOptions.parse(self.model_option or []).stated,
            small_model=self.small_model,
            effort=self.effort,
            strict_model=self.strict_model,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgents(TeamAgents):
    """Which agents work on the goal, and in which directory."""

    cwd: Cwd = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLimits:
    """When a team stops at the latest."""

    timeout: Seconds = None
    turns: Turns = None
    budget_tokens: Tokens = None
    budget_usd: Usd = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits(TeamLimits):
    """When the run ends at the latest."""

    until: Until = None


@examples(
    "bullpen run 'Make the tests pass'",
    "bullpen run - --backend tmux --timeout 3600 < goal.md",
    "bullpen run 'Tidy up' --delegate --mode acceptEdits --allow 'Bash(make:*)'",
    "bullpen run 'Rename the module' --mode acceptEdits --jsonl > run.jsonl",
    "bullpen run -t night --until done",
)
def run(
    session: Session,
    goal: Annotated[
        str | None,
        argument("The goal; - reads standard input. Without it, -t TEAM continues", "[GOAL]"),
    ] = None,
    *,
    agents: RunAgents,
    limits: RunLimits,
    keep: Annotated[bool, flag("Keep the agents running at the end", "--keep")] = False,
    delegate: Annotated[
        bool, flag("The lead only coordinates; teammates do the work", "--delegate")
    ] = False,
    plain: Plain = False,
    record: Record = None,
    rights: PolicyOptions,
) -> None:
    """Give a team a goal, and talk with its lead.

    At a terminal the team's screen opens: type to the lead again and again, and end the run with
    /finish; the lead can end it too. With --until, --plain, --json or without a terminal, the run
    ends by itself. With -t TEAM and without GOAL, that team continues with its own goal and tasks.

    Exit codes: 0 if the goal was reached, 1 if the team failed, 2 if it stopped before the end,
    6 if all that is left waits for you.
    Ctrl-C stops the agents and keeps the team and its work; press it again to quit at once.
    """
    commands = RunCommands(session, plain=plain)
    if goal is None:
        if session.team is None:
            raise commands.no_goal()
        if record is not None:
            session.page.warn("not recorded: a tape has a run from its beginning, with a GOAL")
        raise typer.Exit(commands.go_on(None, until=limits.until, timeout_s=limits.timeout).code)
    lead = agents.lead(directory(agents.cwd), rights)
    if warning := rights.warning(where="an agent"):
        session.page.warn(warning)
    if rights.sandbox and (weak := weakness()):
        session.page.warn(weak)
    outcome = commands.run(
        Goal(
            text_or_input(goal),
            lead,
            team=session.team,
            delegate=delegate,
            attended=rights.attended,
            budget_turns=limits.turns,
            budget_tokens=limits.budget_tokens,
            budget_usd=limits.budget_usd,
            timeout_s=limits.timeout,
            keep=keep,
            until=commands.until(limits.until),
            tape=tape_request(record),
        )
    )
    raise typer.Exit(outcome.code)


@examples("bullpen demo", "bullpen demo --backend tmux --keep")
def demo(
    session: Session,
    *,
    backend: Annotated[
        Literal["in-process", "subprocess", "tmux"] | None,
        option("Where the agents run", panel=PLACE),
    ] = None,
    keep: Annotated[bool, flag("Keep the team and its files", "--keep")] = False,
    plain: Plain = False,
) -> None:
    """Watch a simulated team work; no API key needed.

    Runs in a temporary folder and cleans up after itself, unless you pass --keep.
    """
    raise typer.Exit(RunCommands(session, plain=plain).demo(backend=backend, keep=keep).code)
