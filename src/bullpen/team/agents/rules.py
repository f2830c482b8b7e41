"""Rules for agents: what they may do and how their records change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec, End, Failure
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import IN_PROCESS, Finished, LeadLease, Member, TeamConfig, TeamFacts
from bullpen.team import lead_rules
from bullpen.team.budget import rules as budget_rules
from bullpen.team.lookup import leads, listed, member_of, owner_of
from bullpen.team.tasks.check_rules import is_done

_MINUTE_MS = 60_000
_SPAWN = "member.spawn"


@dataclass(frozen=True, slots=True)
class Registration:
    """An agent after registration. `fresh` is true if this call created the launch."""

    member: Member
    agent: AgentFacts
    fresh: bool


def launched(team: TeamConfig, name: str, nonce: str) -> Registration | None:
    """Return a launch that this call made before, if the store could not say so."""
    member = team.member(name)
    agent = None if member is None else member.agent
    if member is None or agent is None or (agent.nonce, agent.phase) != (nonce, "starting"):
        return None
    return Registration(member, agent, fresh=True)


def with_key(team: TeamConfig, key: str) -> Member | None:
    """Return the member that was spawned with this key, even if it has ended."""
    for member in team.roster:
        agent = member.agent
        if agent is not None and agent.key == key:
            return member
    return None


def living(team: TeamConfig) -> list[Member]:
    """Return the agents that have not ended."""
    agents = ((member, member.agent) for member in team.roster)
    return [member for member, agent in agents if agent is not None and agent.phase != "ended"]


def at_rest(team: TeamConfig, tasks: Sequence[Task]) -> list[str]:
    """Return the living agents that have neither a turn nor a task."""
    busy = {owner_of(task, team.name) for task in tasks if task.status == "in_progress"}
    return [each.name for each in living(team) if not each.is_active and each.name not in busy]


def refuse_while_alive(team: TeamConfig, *, by: str) -> None:
    """Refuse to let a lead end its team while other agents of it have not ended.

    Raises:
        Refused: members_alive.
    """
    others = [member.name for member in living(team) if member.name != by]
    if others:
        raise Refused(
            f"Team {team.name!r} has active members: {', '.join(others)}.",
            reason="members_alive",
            remedy="Send each a shutdown_request and wait for the answers.",
        )


def agreed_to_end(team: TeamConfig, requests: Iterable[Request]) -> set[str]:
    """Return the living agents that agreed to a shutdown in this launch: their ends are near."""
    agreed = {
        request.to: request.answered_ms or 0
        for request in sorted(requests, key=lambda request: request.answered_ms or 0)
        if request.kind == "shutdown" and request.state == "approved"
    }
    return {
        member.name
        for member in living(team)
        if member.agent is not None and agreed.get(member.name, -1) >= member.agent.since_ms
    }


def depth_under(team: TeamConfig, parent: str) -> int:
    """Return the depth of an agent spawned by this member. The lead and people are at the top."""
    member = team.member(parent)
    agent = member.agent if member is not None and not member.is_lead else None
    return 1 if agent is None else agent.depth + 1


def may_spawn(team: TeamConfig, name: str) -> bool:
    """Return whether a member may spawn agents: the lead, and all if the team opened it."""
    if not (leads(team, name) or lead_rules.is_open(team, _SPAWN)):
        return False
    return depth_under(team, name) <= team.facts.limits.depth


def check_spawn(team: TeamConfig, *, by: str, now_ms: int) -> None:
    """Refuse a spawn by a member that may not, and one that exceeds a limit of the team.

    Raises:
        Refused: not_lead, agents_limit, depth_limit, spawn_rate, or a budget that is used up.
    """
    lead_rules.refuse_others(team, by, "spawn agents", act=_SPAWN)
    limits = team.facts.limits
    _check_alive(team)
    if depth_under(team, by) > limits.depth:
        raise _over(
            f"{by!r} cannot spawn agents: the limit is {limits.depth} levels of agents.",
            "depth_limit",
            "depth",
        )
    if len(_recent(team.facts, now_ms)) >= limits.spawns_per_minute:
        raise _over(
            f"Team {team.name!r} has spawned {limits.spawns_per_minute} agents in the last "
            "minute, which is its limit.",
            "spawn_rate",
            "spawns",
        )
    budget_rules.check_spawn(team, by=by, now_ms=now_ms)


def _check_alive(team: TeamConfig, *, but: str | None = None) -> None:
    limits = team.facts.limits
    alive = sum(member.name != but for member in living(team))
    if alive >= limits.agents:
        raise _over(
            f"Team {team.name!r} has {alive} agents, which is its limit.", "agents_limit", "agents"
        )


def spawned(team: TeamConfig, now_ms: int) -> TeamFacts:
    """Return the team's facts with one more spawn."""
    began, recent = budget_rules.began_ms(team, now_ms), _recent(team.facts, now_ms)
    return team.facts.evolve(spawned_ms=[*recent, now_ms], began_ms=began)


def _recent(facts: TeamFacts, now_ms: int) -> list[int]:
    return [ms for ms in facts.spawned_ms if now_ms - _MINUTE_MS < ms <= now_ms]


def _over(message: str, reason: str, limit: str) -> Refused:
    return Refused(
        message,
        reason=reason,
        remedy=f"Stop some agents, or raise the limit: bullpen team limits --{limit} N",
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
    """Return the facts of an agent before its first start."""
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
    team: TeamConfig, member: Member, *, by: str, nonce: str, expect: str | None, now_ms: int
) -> AgentFacts:
    """Return the facts of an agent before it is started again. Earlier usage still counts.

    Raises:
        Conflict: another process started it (`expect` is no longer its nonce).
        Refused: not_lead for everybody but the lead and the member that spawned it; Bullpen did not
            start it (not_ours); or the team is full (agents_limit). The lead can always come back.
    """
    lead_rules.refuse_strangers(team, member.name, by, "start", act="member.stop")
    agent = member.agent
    if agent is None:
        raise Refused(
            f"{member.name!r} was not spawned by Bullpen, so Bullpen cannot start it again.",
            reason="not_ours",
            remedy="Start it the way you started it before.",
        )
    if expect is not None and agent.nonce != expect:
        raise Conflict(
            f"{member.name!r} was already started again by another process.",
            remedy="List the agents: bullpen ps",
        )
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
        failure=None,
        at_limit=None,
    )


def succeeding(team: TeamConfig, row: Member, agent: AgentFacts) -> AgentFacts:
    """Return a new agent that replaces the one in this roster entry. Its launches count on.

    Raises:
        Refused: not_lead, because whoever takes a member's place has its mail and its tasks.
        Conflict: that member is running.
    """
    lead_rules.refuse_others(team, agent.parent or LEAD, f"start {row.name!r}")
    before = row.agent
    if before is None:
        return agent
    if before.phase != "ended":
        raise Conflict(
            f"{row.name!r} is already running.", remedy="Stop it first, or resume its team."
        )
    usage = before.usage if before.has("usage") else None
    return agent.evolve(launch=before.launch + 1, usage=usage, spent=before.spent)


def current(team: TeamConfig, name: str, nonce: str) -> tuple[Member, AgentFacts]:
    """Return the member and its facts if this launch may act.

    Raises:
        Conflict: another launch replaced it, or it has ended.
        NotFound: it is no longer a member.
    """
    member = member_of(team, name)
    agent = member.agent
    if agent is None or agent.nonce != nonce:
        raise Conflict(
            f"A newer launch of {name!r} replaced this process.",
            remedy="Do nothing: this process exits.",
        )
    if agent.phase == "ended":
        raise Conflict(
            f"{name!r} was ended: {agent.cause or agent.end}.",
            remedy="Do nothing: this process exits.",
        )
    return member, agent


def replaced(team: TeamConfig, name: str, nonce: str) -> str | None:
    """Return why a launch has no place in the team any more; None if it has one.

    An entry that cannot be read is not gone, so it says nothing.
    """
    member = team.member(name)
    if member is None:
        return None if team.bad_rows else f"{name!r} was removed from team {team.name!r}."
    agent = member.agent
    if agent is None:
        # Without facts, another member has that name now. Damaged facts say nothing.
        return None if member.bullpen else f"Bullpen does not run {name!r} any more."
    return None if agent.nonce == nonce else f"A newer launch of {name!r} replaced this process."


def waiting(team: TeamConfig, name: str, nonce: str) -> tuple[Member, AgentFacts]:
    """Like `current`, but also raises Conflict if the launch is not waiting for a host."""
    member, agent = current(team, name, nonce)
    if agent.phase != "starting" or agent.process is not None:
        raise Conflict(
            f"{name!r} is no longer waiting for a host.",
            remedy="Do nothing: another host took it, or it ended.",
        )
    return member, agent


def living_launch(
    team: TeamConfig, name: str, nonce: str, *, by: str
) -> tuple[Member, AgentFacts] | None:
    """Return the member and its facts if this launch is its newest and has not ended.

    Raises:
        Refused: not_lead, if it has not ended and `by` may not end it.
    """
    member = team.member(name)
    agent = member.agent if member is not None else None
    if member is None or agent is None or agent.nonce != nonce or agent.phase == "ended":
        return None
    lead_rules.refuse_strangers(team, name, by, "stop", act="member.stop")
    return member, agent


def ended(
    agent: AgentFacts, end: End, cause: str | None, now_ms: int, *, failure: Failure | None = None
) -> AgentFacts:
    """Return the facts of an agent that ended. If an end was ordered, that end is recorded."""
    if agent.end is not None:
        failure = None
    return agent.evolve(
        phase="ended",
        end=agent.end or end,
        cause=agent.cause or cause,
        failure=failure,
        since_ms=now_ms,
    )


def in_roster(member: Member, agent: AgentFacts, **fields: Any) -> Member:
    """Return a member's entry with an agent's facts, and with the pane that they name.

    The entry of the lead never names a pane. That of a guest names the one that the program whose
    team it is gave it.
    """
    if not member.is_lead and not agent.spec.is_guest:
        fields["tmux_pane_id"] = _pane(agent)
    return member.evolve(bullpen=agent.raw, **fields)


def _pane(agent: AgentFacts) -> str:
    """Return where an agent runs as Claude Code writes it: its pane, `in-process`, or nothing."""
    process = None if agent.phase == "ended" else agent.process
    if process is None:
        return ""
    return IN_PROCESS if process.backend == IN_PROCESS else process.pane or ""


def check_finish(
    team: TeamConfig,
    tasks: Iterable[Task],
    *,
    by: str,
    override: str | None,
    voice: Voice = "agent",
) -> None:
    """Refuse to finish while tasks are open, unless a reason is given. A person may always finish.

    Raises:
        Refused: not_lead or open_tasks.
    """
    if voice == "human":
        return
    if not leads(team, by):
        raise Refused(
            f"{by!r} is not the lead of team {team.name!r}.",
            reason="not_lead",
            remedy="Report to the lead. Only the lead can finish.",
        )
    open_tasks = [task for task in tasks if not (is_done(task) or task.is_internal)]
    if open_tasks and not (override or "").strip():
        shown = listed(f"#{task.id} {_owned(task, team.name)}" for task in open_tasks)
        raise Refused(
            f"{len(open_tasks)} tasks are not completed: {shown}.",
            reason="open_tasks",
            remedy="Complete or delete them, or say in `override_reason` why they stay open.",
        )


def _owned(task: Task, team: str) -> str:
    owner = owner_of(task, team)
    return f"({task.status}, {owner})" if owner else f"({task.status})"


def finished(
    by: str, summary: str, override: str | None, now_ms: int, *, voice: Voice = "agent"
) -> Finished:
    """Return the record of a finished goal."""
    human = voice if voice == "human" else None
    return Finished.new(
        by=by, at_ms=now_ms, summary=summary, override=override or None, voice=human
    )


def ended_by_person(facts: TeamFacts) -> Finished | None:
    """Return how a person ended the run, if one did."""
    result = facts.finished
    return result if result is not None and result.voice == "human" else None


def take_lead(
    facts: TeamFacts, lease: LeadLease, *, now_ms: int, holder_gone: bool = False
) -> TeamFacts:
    """Return the team's facts with this process as its lead.

    `holder_gone` says that the process holding the lease is dead.

    Raises:
        Conflict: another process leads and its lease has not expired.
    """
    held = facts.lead
    another = held is not None and held.nonce != lease.nonce and held.until_ms > now_ms
    if held is not None and another and not holder_gone:
        left = max(1, round((held.until_ms - now_ms) / 1000))
        raise Conflict(
            f"Process {held.pid} on {held.host} leads this team. Its lease expires in {left} s.",
            remedy="Wait until it ends, or stop it.",
        )
    return facts.evolve(lead=lease.raw)


def drop_lead(facts: TeamFacts, nonce: str) -> TeamFacts:
    """Return the team's facts without this process as lead. Unchanged if another process leads."""
    held = facts.lead
    return facts if held is None or held.nonce != nonce else facts.evolve(lead=None)


def limited(team: TeamConfig, voice: Voice, changes: dict[str, Any]) -> TeamFacts:
    """Return the team's facts with changed limits. None removes a limit.

    Raises:
        Refused: not_a_person.
        Invalid: an amount is not valid.
    """
    budget_rules.refuse_agents(voice)
    facts = team.facts
    try:
        limits = facts.limits.evolve(**changes)
    except ValueError as error:
        raise Invalid(f"The limit is not valid: {error}.", remedy="Use numbers above 0.") from None
    return facts.evolve(limits=limits.raw)


def rebudgeted(agent: AgentFacts, voice: Voice, changes: dict[str, Any]) -> AgentFacts:
    """Return the agent with a changed budget. None removes a limit.

    Raises:
        Refused: not_a_person.
        Invalid: an amount is not valid.
    """
    budget_rules.refuse_agents(voice)
    spec = agent.spec
    cap = budget_rules.changed(spec.budget_with_turns, changes)
    budget = cap.evolve(turns=None).raw or None
    return agent.evolve(spec=spec.evolve(turns_max=cap.turns, budget=budget).raw)


def agent_of(team: TeamConfig, name: str) -> tuple[Member, AgentFacts]:
    """Return a member that Bullpen runs. Raises NotFound."""
    member = member_of(team, name)
    agent = member.agent
    if agent is None:
        raise NotFound(
            f"{name!r} is a member of team {team.name!r}, but Bullpen does not run it.",
            remedy="List the agents: bullpen ps",
        )
    return member, agent
