"""What an agent of ours may do, and how its record changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.protocol.agent import (
    AgentFacts,
    AgentSpec,
    End,
    Finished,
    LeadLease,
    Limits,
    TeamFacts,
)
from bullpen.protocol.request import Voice
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.team import budget_rules
from bullpen.team.check_rules import is_done
from bullpen.team.lookup import leads, member_of, owner_of

_MINUTE_MS = 60_000


def with_key(team: TeamConfig, key: str) -> Member | None:
    """The member that was spawned with this key, whatever became of it."""
    for member in team.roster:
        agent = member.agent
        if agent is not None and agent.key == key:
            return member
    return None


def living(team: TeamConfig) -> list[Member]:
    """The members that are agents of ours and have not ended."""
    agents = ((member, member.agent) for member in team.roster)
    return [member for member, agent in agents if agent is not None and agent.phase != "ended"]


def depth_under(team: TeamConfig, parent: str) -> int:
    """How deep an agent lies that this member spawns; the lead and people are at the top."""
    member = team.member(parent)
    agent = member.agent if member is not None and not member.is_lead else None
    return 1 if agent is None else agent.depth + 1


def check_spawn(team: TeamConfig, *, by: str, now_ms: int) -> None:
    """Refuse a spawn past a limit of the team.

    Raises:
        Refused: agents_limit, depth_limit, spawn_rate, or a budget that is used up.
    """
    limits = team.facts.bounds
    _check_alive(team)
    if depth_under(team, by) > limits.depth:
        raise _over(
            f"{by!r} is too far down to spawn: agents may be {limits.depth} deep.",
            "depth_limit",
            "depth",
        )
    if len(_recent(team.facts, now_ms)) >= limits.spawns_per_minute:
        raise _over(
            f"{limits.spawns_per_minute} agents were spawned in the last minute,"
            f" as many as team {team.name!r} may.",
            "spawn_rate",
            "spawns",
        )
    budget_rules.check_spawn(team, by=by, now_ms=now_ms)


def _check_alive(team: TeamConfig, *, but: str | None = None) -> None:
    limits = team.facts.bounds
    alive = sum(member.name != but for member in living(team))
    if alive >= limits.agents:
        raise _over(
            f"Team {team.name!r} has {alive} agents, as many as it may.", "agents_limit", "agents"
        )


def spawned(facts: TeamFacts, now_ms: int) -> TeamFacts:
    """The team's facts with one more spawn."""
    began = now_ms if facts.began_ms is None else facts.began_ms
    return facts.evolve(spawned_ms=[*_recent(facts, now_ms), now_ms], began_ms=began)


def _recent(facts: TeamFacts, now_ms: int) -> list[int]:
    return [ms for ms in facts.spawned_ms if now_ms - _MINUTE_MS < ms <= now_ms]


def _over(message: str, reason: str, limit: str) -> Refused:
    return Refused(
        message,
        reason=reason,
        remedy=f"End some, or raise the limit: bullpen team limits --{limit} N",
    )


def new_agent(
    spec: AgentSpec,
    *,
    nonce: str,
    key: str | None,
    parent: str,
    depth: int,
    prompt_id: str | None,
    now_ms: int,
) -> AgentFacts:
    """The facts of an agent that is about to be started for the first time."""
    return AgentFacts.new(
        spec=spec.raw,
        key=key,
        parent=parent,
        depth=depth,
        prompt_id=prompt_id,
        launch=1,
        nonce=nonce,
        phase="starting",
        since_ms=now_ms,
        began_ms=now_ms,
    )


def relaunched(
    team: TeamConfig, member: Member, *, nonce: str, expect: str | None, now_ms: int
) -> AgentFacts:
    """The facts of an agent that is about to be started again. What it used stays used.

    Raises:
        Conflict: somebody else started it since (`expect` is not its nonce any more).
        Refused: it was not started by us (not_ours), or the team has enough (agents_limit). The
            lead can always come back.
    """
    agent = member.agent
    if agent is None:
        raise Refused(
            f"{member.name!r} was not spawned by Bullpen and cannot be started by it.",
            reason="not_ours",
            remedy="Start it the way it was started before.",
        )
    if expect is not None and agent.nonce != expect:
        raise Conflict(f"{member.name!r} was started again by somebody else.", remedy="Look again.")
    if not member.is_lead:
        _check_alive(team, but=member.name)
    return agent.evolve(
        launch=agent.launch + 1,
        nonce=nonce,
        phase="starting",
        since_ms=now_ms,
        process=None,
        end=None,
        cause=None,
        at_limit=None,
    )


def succeeding(row: Member, agent: AgentFacts) -> AgentFacts:
    """A new agent in the place of the one that had this row: the count of launches goes on."""
    before = row.agent
    if before is None:
        return agent
    if before.phase != "ended":
        raise Conflict(
            f"{row.name!r} is running already.", remedy="Stop it first, or take up its team."
        )
    return agent.evolve(launch=before.launch + 1, usage=before.usage, spent=before.spent)


def current(team: TeamConfig, name: str, nonce: str) -> tuple[Member, AgentFacts]:
    """The member and its facts, if this launch is the one that may act.

    Raises:
        Conflict: it was replaced by another launch, or has been ended.
        NotFound: it is no member any more.
    """
    member = member_of(team, name)
    agent = member.agent
    if agent is None or agent.nonce != nonce:
        raise Conflict(
            f"This process is no longer {name!r}: another launch took its place.",
            remedy="Nothing to do: it ends.",
        )
    if agent.phase == "ended":
        raise Conflict(
            f"{name!r} was ended: {agent.cause or agent.end}.", remedy="Nothing to do: it ends."
        )
    return member, agent


def waiting(team: TeamConfig, name: str, nonce: str) -> tuple[Member, AgentFacts]:
    """The same, if it waits for a machine that starts it. Raises Conflict also if not."""
    member, agent = current(team, name, nonce)
    if agent.phase != "starting" or agent.place is not None:
        raise Conflict(f"{name!r} does not wait for a machine any more.")
    return member, agent


def living_launch(team: TeamConfig, name: str, nonce: str) -> tuple[Member, AgentFacts] | None:
    """The member and its facts, if this launch is its newest and has not ended."""
    member = team.member(name)
    agent = member.agent if member is not None else None
    if member is None or agent is None or agent.nonce != nonce or agent.phase == "ended":
        return None
    return member, agent


def ended(agent: AgentFacts, end: End, cause: str | None, now_ms: int) -> AgentFacts:
    """The facts of an agent that has ended: as it was told to, if it was."""
    return agent.evolve(
        phase="ended", end=agent.end or end, cause=agent.cause or cause, since_ms=now_ms
    )


def check_addressable(member: Member) -> None:
    """Refuse mail for an agent of ours that cannot receive.

    Raises:
        Refused: member_ended, saying that it can be started again; not_ready for one that has
            never proved that it can receive.
    """
    agent = member.agent
    if agent is None or can_receive(member):
        return
    if agent.phase == "starting":
        raise Refused(
            f"{member.name!r} is being started and cannot receive yet.",
            reason="not_ready",
            remedy="Try again when it is ready: bullpen ps shows it.",
        )
    why = f" ({agent.cause})" if agent.cause else ""
    raise Refused(
        f"{member.name!r} has ended: it {_ENDS[agent.end or 'stopped']}{why}.",
        reason="member_ended",
        remedy=f"Start it again with `bullpen team resume --agent {member.name}`, then send.",
    )


def can_receive(member: Member) -> bool:
    """Whether mail for a member has a reader. One that is started again has a mailbox already."""
    agent = member.agent
    if agent is None or member.is_lead or agent.phase == "running":
        return True
    return agent.phase == "starting" and agent.launch > 1


_ENDS: dict[End, str] = {
    "stopped": "was stopped",
    "suspended": "was stopped with its team",
    "finished": "finished",
    "failed": "failed",
    "lost": "was lost",
}


def check_finish(team: TeamConfig, tasks: Iterable[Task], *, by: str, override: str | None) -> None:
    """Refuse to finish while tasks are open, unless a reason is given.

    Raises:
        Refused: not_lead or open_tasks.
    """
    if not leads(team, by):
        raise Refused(
            f"{by!r} does not lead team {team.name!r}.",
            reason="not_lead",
            remedy="Report to the lead, who finishes.",
        )
    open_tasks = [task for task in tasks if not (is_done(task) or task.is_internal)]
    if open_tasks and not (override or "").strip():
        shown = ", ".join(f"#{task.id} {_owned(task, team.name)}" for task in open_tasks[:8])
        more = f" and {len(open_tasks) - 8} more" if len(open_tasks) > 8 else ""
        raise Refused(
            f"{len(open_tasks)} of the tasks are not completed: {shown}{more}.",
            reason="open_tasks",
            remedy="Complete or delete them, or finish with a reason why they may stay open.",
        )


def _owned(task: Task, team: str) -> str:
    owner = owner_of(task, team)
    return f"({task.status}, {owner})" if owner else f"({task.status})"


def finished(by: str, summary: str, override: str | None, now_ms: int) -> Finished:
    """The record of the lead's word."""
    return Finished.new(by=by, at_ms=now_ms, summary=summary, override=override or None)


def take_lead(
    facts: TeamFacts, lease: LeadLease, *, now_ms: int, holder_gone: bool = False
) -> TeamFacts:
    """The team's facts with this process as its lead.

    `holder_gone` is the system's word that the process which holds the lease is dead.

    Raises:
        Conflict: another process leads, until its lease is over.
    """
    held = facts.lead_lease
    another = held is not None and held.nonce != lease.nonce and held.until_ms > now_ms
    if held is not None and another and not holder_gone:
        left = max(1, round((held.until_ms - now_ms) / 1000))
        raise Conflict(
            f"Process {held.pid} on {held.host} leads this team, for {left} s more.",
            remedy="Wait until it ends, or stop it.",
        )
    return facts.evolve(lead=lease.raw)


def drop_lead(facts: TeamFacts, nonce: str) -> TeamFacts:
    """The team's facts without this process as its lead; unchanged if another leads."""
    held = facts.lead_lease
    return facts if held is None or held.nonce != nonce else facts.evolve(lead=None)


def limited(team: TeamConfig, voice: Voice, changes: dict[str, Any]) -> TeamFacts:
    """The team's facts with some limits changed; one that is None is none any more.

    Raises:
        Refused: not_a_person.
        Invalid: an amount that is none.
    """
    budget_rules.refuse_agents(voice)
    facts = team.facts
    try:
        limits = Limits.parse(facts.limits or {}).evolve(**changes)
    except ValueError as error:
        raise Invalid(f"This cannot be a limit: {error}.", remedy="Give numbers above 0.") from None
    return facts.evolve(limits=limits.raw)


def rebudgeted(agent: AgentFacts, voice: Voice, changes: dict[str, Any]) -> AgentFacts:
    """The agent with another budget of its own; an amount that is None is not limited any more.

    Raises:
        Refused: not_a_person.
        Invalid: an amount that is none.
    """
    budget_rules.refuse_agents(voice)
    spec = agent.asked
    cap = budget_rules.changed(spec.cap, changes)
    budget = cap.evolve(turns=None).raw or None
    return agent.evolve(spec=spec.evolve(turns_max=cap.turns, budget=budget).raw)


def agent_of(team: TeamConfig, name: str) -> tuple[Member, AgentFacts]:
    """A member that is an agent of ours. Raises NotFound."""
    member = member_of(team, name)
    agent = member.agent
    if agent is None:
        raise NotFound(
            f"{name!r} is a member of team {team.name!r}, but no agent that Bullpen runs.",
            remedy="bullpen ps lists the agents.",
        )
    return member, agent
