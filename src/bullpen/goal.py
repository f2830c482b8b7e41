"""One goal, pursued by a team to its end: what `bullpen run` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bullpen.agents.duties import UNTIL_DONE
from bullpen.app import Settings
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.office import Office, open_office, unattended
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode, Policy
from bullpen.unattended.keeping import keeping
from bullpen.unattended.outcome import Outcome, Watch
from bullpen.unattended.pursuit import Pursuit
from bullpen.unattended.until import DONE, Until


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached, and how."""

    text: str
    cwd: str
    team: str | None = None
    driver: str = "native"
    backend: str = "in-process"
    model: str | None = None
    # What the agents may do; with `delegate` the lead itself only leads.
    mode: Mode | None = None
    policy: Policy | None = None
    project_settings: bool = True
    delegate: bool = False
    # Whether a person is there to answer what agents ask.
    attended: bool = True
    script: str | None = None
    # What starts a program of another vendor.
    command: Sequence[str] | None = None
    # For this goal, on top of what the team has used before.
    budget_turns: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    keep: bool = False
    until: Until | None = None


async def run_goal(settings: Settings, goal: Goal, watch: Watch) -> Outcome:
    """Give a team a goal and wait until it is reached, or cannot be.

    Cancelling it stops the agents in order and keeps the team: it can be resumed.

    Raises:
        Conflict: the team has a lead that is at work.
        Unavailable: the lead could not be started.
    """
    if goal.keep and goal.backend == "in-process":
        raise Invalid(
            "Agents inside this process cannot outlive it.",
            remedy="Choose --backend subprocess or tmux to keep them.",
        )
    async with open_office(settings) as office:
        spec = await office.spec(
            driver=goal.driver,
            backend=goal.backend,
            cwd=goal.cwd,
            model=goal.model,
            prompt=goal.text,
            script=goal.script,
            command=goal.command,
            mode=goal.mode,
            policy=goal.policy,
            project_settings=goal.project_settings,
            claims=False,
        )
        if not goal.attended:
            said = goal.policy is not None and goal.policy.plan_approver == "human"
            spec = unattended(spec, plans=not said)
        if goal.delegate:
            spec = only_leading(spec)
        name, is_new = await _team_for(office, goal)
        team, supervisor = office.teams.open(name), office.supervisor(name)
        await supervisor.tend(by=LEAD)
        await team.agents.unfinish(by=LEAD)
        await team.agents.grant(
            by=LEAD, turns=goal.budget_turns, tokens=goal.budget_tokens, usd=goal.budget_usd
        )
        seen = len(await team.events())
        until = goal.until or DONE
        lead = spec.evolve(options={**spec.options, UNTIL_DONE: True})
        async with keeping(office, name, led=True, unattended=goal.until is not None) as care:
            pursuit = Pursuit(
                team, supervisor, watch, seen=seen, keep=goal.keep, until=until, care=care
            )
            try:
                return await pursuit.run(
                    lambda: supervisor.spawn(LEAD, lead, by=LEAD),
                    led=True,
                    timeout_s=goal.timeout_s,
                )
            except BullpenError:
                if is_new and not pursuit.begun:
                    # It never began: an empty team would only be in the way.
                    await office.delete_team(name, by=LEAD, force=True)
                raise


async def resume_goal(
    settings: Settings,
    team_name: str,
    watch: Watch,
    *,
    until: Until | None = None,
    timeout_s: float | None = None,
) -> Outcome:
    """Take up what a team was stopped or killed at, and wait until it is reached.

    With a lead that is its goal, without one its tasks.

    Raises:
        NotFound: there is no such team.
        Conflict: nobody leads it, and another process watches it already.
    """
    async with open_office(settings) as office:
        team, supervisor = office.teams.open(team_name), office.supervisor(team_name)
        led = await _is_led(office, team_name)
        seen = len(await team.events())
        alone = until is not None or not led
        members = () if led else None
        async with keeping(office, team_name, led=led, unattended=alone, members=members) as care:
            pursuit = Pursuit(team, supervisor, watch, seen=seen, until=until or DONE, care=care)
            return await pursuit.run(
                lambda: supervisor.resume(by=LEAD), led=led, timeout_s=timeout_s
            )


async def _is_led(office: Office, team_name: str) -> bool:
    """Whether an agent leads a team until its goal is reached."""
    lead = (await office.teams.open(team_name).agents.config()).member(LEAD)
    agent = lead.agent if lead is not None else None
    return agent is not None and bool(agent.asked.options.get(UNTIL_DONE))


async def pursues_goal(office: Office, team_name: str) -> bool:
    """Whether a team was made to reach an end, and so must be watched while it works."""
    config = await office.teams.open(team_name).agents.config()
    return config.facts.made_from is not None or await _is_led(office, team_name)


def only_leading(spec: AgentSpec) -> AgentSpec:
    """The spec of a lead that only leads: what it could have done itself, its teammates may."""
    policy = spec.rights.evolve(teammates=spec.start_mode)
    return spec.evolve(mode="delegate", policy=policy.raw)


async def _team_for(office: Office, goal: Goal) -> tuple[str, bool]:
    """The team for a goal, and whether it was made for it."""
    name = goal.team or f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        await office.teams.open(name).agents.config()
    except NotFound:
        words = " ".join(goal.text.split())
        await office.teams.create(name, description=words[:200], cwd=goal.cwd)
        return name, True
    return name, False
