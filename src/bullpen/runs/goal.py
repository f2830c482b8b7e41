"""Runs a team until it reaches a goal: `bullpen run`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from bullpen.agents.config.spec import SpawnRequest, unattended
from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.app.app import App, open_app
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD, name_by_time
from bullpen.runs.tapes.recording import Recording, TapeRequest, begin, completed, goal_header
from bullpen.runs.watch.outcome import Outcome, Watch, unwatched
from bullpen.runs.watch.run_services import open_services
from bullpen.runs.watch.team_run import TeamRun
from bullpen.runs.watch.until import DONE, Until
from bullpen.team.team import Team
from bullpen.view.news import THE_RUN_IS_OVER
from bullpen.view.text import shortened

_FIRST = 200
"""How many events tell whether anything was done."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and how to run a team for it."""

    text: str
    # The lead. It gets the text as its prompt, and its teammates are like it.
    lead: SpawnRequest
    team: str | None = None
    # Whether the lead only leads.
    delegate: bool = False
    # Whether a person is there to answer requests.
    attended: bool = True
    # For this goal, in addition to what the team has used before.
    budget_turns: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    keep: bool = False
    until: Until | None = None
    # Whether a person talks with the lead: then it waits for words until the person or it finishes.
    conversation: bool = False
    # Where the answers of its models are recorded, or come from.
    tape: TapeRequest | None = None


async def run_goal(
    goal: Goal,
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
    watch: Watch = unwatched,
) -> Outcome:
    """Give a team a goal and wait until it is reached, or cannot be.

    Cancelling stops the agents and keeps the team: it can be resumed.

    Raises:
        Conflict: the team's lead is already running.
        Unavailable: the lead could not be started.
    """
    if goal.keep and goal.lead.backend == "in-process":
        raise Invalid(
            "In-process agents end with this process, so --keep cannot keep them.",
            remedy="Choose --backend subprocess or --backend tmux.",
        )
    async with open_app(settings, home=home) as app:
        return await pursue(app, goal, watch)


async def pursue(app: App, goal: Goal, watch: Watch = unwatched) -> Outcome:
    """Do what `run_goal` does, in a home that is open already. Raises as it does."""
    spec = await app.resolve(replace(goal.lead, prompt=goal.text, claims=False))
    if not goal.attended:
        policy = goal.lead.policy
        said = policy is not None and policy.plan_approver == "human"
        spec = unattended(spec, plans=not said)
    if goal.delegate:
        spec = only_leading(spec)
    name = goal.team or name_by_time("run", now_ms())
    recording = await _recording(goal, name, app.settings.home)
    is_new = await _is_new(app, goal, name)
    team, supervisor = app.teams.open(name), app.supervisor(name)
    await supervisor.tend(by=LEAD)
    await team.agents.unfinish(by=LEAD)
    await team.agents.grant(
        by=LEAD, turns=goal.budget_turns, tokens=goal.budget_tokens, usd=goal.budget_usd
    )
    seen = await team.last_seq()
    until = goal.until or DONE
    lead = recording.given(spec.evolve(options={**spec.options, UNTIL_DONE: True}), LEAD)
    async with (
        completed(recording, team),
        open_services(app, name, led=True, unattended=goal.until is not None) as services,
    ):
        team_run = TeamRun(
            team,
            supervisor,
            watch,
            services,
            seen=seen,
            keep=goal.keep,
            until=until,
            conversation=goal.conversation,
        )
        try:
            outcome = await team_run.run(
                lambda: supervisor.spawn(LEAD, lead, by=LEAD),
                led=True,
                timeout_s=goal.timeout_s,
            )
            recording.status = outcome.status
            return outcome
        except BullpenError:
            if is_new and not team_run.begun:
                # Nothing was started: remove the empty team.
                await app.delete_team(name, by=LEAD, force=True)
            raise
        finally:
            recording.begun = team_run.begun


async def resume_goal(
    settings: Settings,
    team_name: str,
    watch: Watch,
    *,
    until: Until | None = None,
    timeout_s: float | None = None,
    conversation: bool = False,
) -> Outcome:
    """Resume a stopped or killed team, and wait until its goal is reached or its tasks are done.

    With `conversation`, its lead waits for a person's words, as in `run_goal`.

    Raises:
        NotFound: there is no such team.
        Conflict: it has no lead, and another process watches it already.
    """
    async with open_app(settings) as app:
        return await go_on(
            app, team_name, watch, until=until, timeout_s=timeout_s, conversation=conversation
        )


async def go_on(
    app: App,
    team_name: str,
    watch: Watch = unwatched,
    *,
    until: Until | None = None,
    timeout_s: float | None = None,
    conversation: bool = False,
    again: bool = False,
) -> Outcome:
    """Do what `resume_goal` does, in a home that is open already. Raises as it does.

    With `again`, a team whose run has ended goes on too, also one that reached its goal: a person
    has more to say to its lead.
    """
    team, supervisor = app.teams.open(team_name), app.supervisor(team_name)
    led = await _is_led(app, team_name)
    if again:
        await supervisor.tend(by=LEAD)
        await team.agents.unfinish(by=LEAD)
    seen = await team.last_seq()
    alone = until is not None or not led
    members = () if led else None
    async with open_services(
        app, team_name, led=led, unattended=alone, members=members
    ) as services:
        team_run = TeamRun(
            team,
            supervisor,
            watch,
            services,
            seen=seen,
            until=until or DONE,
            conversation=conversation and led,
        )
        outcome = await team_run.run(
            lambda: _start_again(team, supervisor, again=again), led=led, timeout_s=timeout_s
        )
        if led and not again and await _nothing_ran(team, since=seen):
            said = (
                f"The run is over. Go on with: bullpen run -t {shlex.quote(team_name)} 'WHAT NEXT'"
            )
            return replace(outcome, note=said)
        return outcome


async def _nothing_ran(team: Team, *, since: int) -> bool:
    """Return whether no agent, task or merge of a team has changed since then."""
    events = await team.events(after=since, limit=_FIRST)
    return not any(event.op.startswith(("agent.", "task.", "merge.")) for event in events)


async def _start_again(team: Team, supervisor: Supervisor, *, again: bool) -> list[Spawned]:
    """Restart the agents; with `again`, also those that ended because the run was over."""
    started = await supervisor.resume(by=LEAD)
    if not again:
        return started
    over = [
        member.name
        for member in (await team.agents.config()).roster
        if (agent := member.agent) is not None
        and agent.phase == "ended"
        and (member.is_lead or agent.cause == THE_RUN_IS_OVER)
    ]
    return [*started, *(await supervisor.resume(by=LEAD, names=over) if over else ())]


async def _is_led(app: App, team_name: str) -> bool:
    """Return whether an agent leads a team until its goal is reached."""
    lead = (await app.teams.open(team_name).agents.config()).member(LEAD)
    agent = lead.agent if lead is not None else None
    return agent is not None and bool(agent.spec.options.get(UNTIL_DONE))


async def pursues_goal(app: App, team_name: str) -> bool:
    """Return whether a team has a goal or a team file, and so must be watched while it works."""
    config = await app.teams.open(team_name).agents.config()
    return config.facts.origin is not None or await _is_led(app, team_name)


def only_leading(spec: AgentSpec) -> AgentSpec:
    """Return the spec of a lead that only leads; its teammates get the mode that it had."""
    policy = spec.policy.evolve(teammates=spec.start_mode)
    return spec.evolve(mode="delegate", policy=policy.raw)


async def _is_new(app: App, goal: Goal, name: str) -> bool:
    """Create the team for a goal, unless there is one; whether it is new."""
    try:
        await app.teams.open(name).agents.config()
    except NotFound:
        about = shortened(goal.text)
        await app.teams.create(name, description=about, cwd=goal.lead.cwd)
        return True
    return False


async def _recording(goal: Goal, name: str, home: Path) -> Recording:
    """The tape of a goal. Raises Invalid, Conflict or Unavailable."""
    if goal.tape is None:
        return Recording(None, None)
    header = goal_header(
        name,
        goal.text,
        goal.lead,
        delegate=goal.delegate,
        attended=goal.attended,
        talks=goal.conversation,
    )
    return await begin(goal.tape, header, cwd=goal.lead.cwd, home=home)
