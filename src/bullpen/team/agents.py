"""The agents of a team: their records from registration to end, each change in one commit.

Who starts and stops processes is `bullpen.agents.supervisor`; here is only what the team knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bullpen.protocol import names
from bullpen.protocol.agent import (
    AgentFacts,
    AgentSpec,
    End,
    Finished,
    LeadLease,
    Limits,
    ProcessRecord,
    TeamFacts,
    Usage,
)
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask, PutTeam, RemoveMember
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.presence import Presence
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso
from bullpen.store.base import View
from bullpen.team import agent_rules, rules
from bullpen.team.decision import Part
from bullpen.team.lookup import leads, member_of
from bullpen.team.notices import notice, prompt
from bullpen.team.roster import new_member


@dataclass(frozen=True, slots=True)
class Registration:
    """An agent as the team knows it. `fresh` says that this call made the launch."""

    member: Member
    agent: AgentFacts
    fresh: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """An agent that has ended, and its tasks that are pending again."""

    agent: AgentFacts
    released: tuple[Task, ...]


class Agents(Part):
    """The agents of one team. A launch proves who it is by its nonce."""

    async def register(
        self, name: str, spec: AgentSpec, *, by: str, nonce: str, key: str | None = None
    ) -> Registration:
        """Record an agent that is about to be started.

        With a key that was used before, the agent of that key is the answer and nothing changes.
        The lead can be registered too: its row is there already.

        Raises:
            Refused: agents_limit, depth_limit or spawn_rate.
            Conflict: the name is taken.
        """
        names.check_new_name(name, kind="member")
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Registration, list[Change]]:
            team = view.team
            held = agent_rules.with_key(team, key) if key is not None else None
            if held is not None and held.agent is not None:
                return Registration(held, held.agent, fresh=False), []
            agent_rules.check_spawn(team, by=by, now_ms=now)
            lead = name == LEAD
            depth = 0 if lead else agent_rules.depth_under(team, by)
            agent = agent_rules.new_agent(
                spec,
                nonce=nonce,
                key=key,
                parent=by,
                depth=depth,
                prompt_id=message_id if spec.prompt else None,
                now_ms=now,
            )
            if lead:
                row = member_of(team, LEAD)
                agent = agent_rules.succeeding(row, agent)
            else:
                row = new_member(team, name, spec, now_ms=now)
            row = row.evolve(bullpen=agent.raw, cwd=spec.cwd)
            changes: list[Change] = [
                PutMember(row),
                PutTeam({"bullpen": agent_rules.spawned(team.facts, now).raw}),
            ]
            return Registration(row, agent, fresh=True), changes

        return await self._settle(decide, by=by, op="agent.spawn")

    async def relaunch(
        self,
        name: str,
        *,
        by: str,
        nonce: str,
        expect: str | None = None,
    ) -> Registration:
        """Record that an agent is about to be started again; what it had before is fenced off.

        Raises:
            Conflict: its nonce is no longer `expect`: somebody else started it.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Registration, list[Change]]:
            member = member_of(view.team, name)
            agent = agent_rules.relaunched(member, nonce=nonce, expect=expect, now_ms=now)
            row = member.evolve(bullpen=agent.raw, is_active=False)
            return Registration(row, agent, fresh=True), [PutMember(row)]

        return await self._settle(decide, by=by, op="agent.resume")

    async def withdraw(self, name: str, *, by: str, nonce: str, cause: str) -> None:
        """Take back a registration whose start failed: a new member goes, an old one has ended."""
        now = self._clock()

        def decide(view: View) -> tuple[None, list[Change]]:
            member, agent = agent_rules.agent_of(view.team, name)
            if agent.nonce != nonce:
                return None, []
            if agent.launch == 1 and not member.is_lead:
                return None, [RemoveMember(name)]
            ended = agent_rules.ended(agent, "failed", cause, now)
            return None, [PutMember(member.evolve(bullpen=ended.raw, is_active=False))]

        await self._settle(decide, by=by, op="agent.withdraw")

    async def placed(self, name: str, *, nonce: str, place: ProcessRecord) -> AgentFacts:
        """Record where a launch runs. Raises Conflict if it may no longer act."""

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = agent.evolve(process=place.raw)
            if after == agent:
                return after, []
            return after, [PutMember(member.evolve(bullpen=after.raw))]

        return await self._settle(decide, by=name, op="agent.placed")

    async def ready(self, name: str, *, nonce: str, place: ProcessRecord) -> AgentFacts:
        """Record that a launch can receive, and where it says it runs.

        The prompt it was spawned with enters its mailbox in the same commit.
        """
        now = self._clock()

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            merged = {**(agent.process or {}), **place.raw}
            after = agent.evolve(phase="running", since_ms=now, process=merged, prompt_id=None)
            changes: list[Change] = [PutMember(member.evolve(bullpen=after.raw))]
            text, parent = agent.asked.prompt, agent.parent or LEAD
            if agent.prompt_id is not None and text:
                message = prompt(
                    text, team=view.team, by=parent, message_id=agent.prompt_id, now_ms=now
                )
                changes.append(Deliver(name, message))
            return after, changes

        return await self._settle(decide, by=name, op="agent.ready")

    async def begin_turn(self, name: str, *, nonce: str) -> AgentFacts:
        """Record that a turn begins.

        Raises:
            Refused: turns_limit.
            Conflict: this launch may no longer act.
        """

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            agent_rules.check_turn(view.team, agent)
            used = agent.used
            after = agent.evolve(usage=used.evolve(turns=used.turns + 1).raw)
            return after, [PutMember(member.evolve(is_active=True, bullpen=after.raw))]

        return await self._settle(decide, by=name, op="agent.turn")

    async def end_turn(
        self, name: str, *, nonce: str, usage: Usage, idle: IdleNotification | None
    ) -> AgentFacts:
        """Record that a turn is over and what it used, and tell the lead, all in one commit.

        `usage` is what this turn used; its turn was counted when it began.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = agent.evolve(usage=agent.used.plus(usage).raw)
            changes: list[Change] = [PutMember(member.evolve(is_active=False, bullpen=after.raw))]
            if idle is not None and not leads(view.team, name):
                message = notice(
                    idle, team=view.team, sender=name, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(LEAD, message, fresh=True))
            return after, changes

        return await self._settle(decide, by=name, op="agent.idle")

    async def ending(self, name: str, end: End, *, by: str, nonce: str, cause: str) -> None:
        """Record how a launch is about to end, before it is told to: its own word comes second."""

        def decide(view: View) -> tuple[None, list[Change]]:
            found = agent_rules.living_launch(view.team, name, nonce)
            if found is None:
                return None, []
            member, agent = found
            after = agent.evolve(end=end, cause=cause)
            return None, [PutMember(member.evolve(bullpen=after.raw))]

        await self._settle(decide, by=by, op="agent.ending")

    async def end(
        self, name: str, end: End, *, by: str, nonce: str, cause: str | None = None
    ) -> Ending | None:
        """Record that a launch has ended; its unfinished tasks are pending again, fenced off.

        An agent that is suspended keeps its tasks: it goes on with them. The lead is told of an
        agent that failed or was lost, in the same commit. None if another launch has taken its
        place, or it had ended before.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Ending | None, list[Change]]:
            found = agent_rules.living_launch(view.team, name, nonce)
            if found is None:
                return None, []
            member, agent = found
            after = agent_rules.ended(agent, end, cause, now)
            how, why = after.end, after.cause or "no cause is known"
            reason = f"{name} {how}: {why}"
            keeps = how == "suspended"
            tasks = [] if keeps else rules.released_from(view, name, reason=reason)
            changes: list[Change] = [
                PutMember(member.evolve(is_active=False, bullpen=after.raw)),
                *(PutTask(task) for task in tasks),
            ]
            # Of one that never was ready, whoever spawned it is told.
            told = agent.phase == "running" and not member.is_lead
            if how in ("failed", "lost") and told:
                payload = IdleNotification.new(
                    sender=name,
                    timestamp=iso(now),
                    idle_reason="failed",
                    failure_reason=f"{name} is {how}: {why}",
                )
                message = notice(
                    payload, team=view.team, sender=name, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(LEAD, message, fresh=True))
            return Ending(after, tuple(tasks)), changes

        return await self._settle(decide, by=by, op="agent.end")

    async def get(self, name: str) -> tuple[Member, AgentFacts]:
        """An agent of ours. Raises NotFound."""
        return agent_rules.agent_of(await self._store.config(self._team), name)

    async def living(self) -> list[tuple[Member, AgentFacts]]:
        """The agents that have not ended, as far as the team knows."""
        config = await self._store.config(self._team)
        return [agent_rules.agent_of(config, m.name) for m in agent_rules.living(config)]

    async def beat(self, presence: Presence) -> None:
        """Record a heartbeat."""
        await self._store.beat(self._team, presence)

    async def presence(self) -> Mapping[str, Presence]:
        """The last heartbeat of everybody who ever sent one."""
        return await self._store.presence(self._team)

    async def config(self) -> TeamConfig:
        """The team and its members, with our facts about them."""
        return await self._store.config(self._team)

    async def limits(self) -> Limits:
        """The limits of the team."""
        return (await self._store.config(self._team)).facts.bounds

    async def limit(self, *, by: str, **changes: int) -> Limits:
        """Change some limits: agents, depth, spawns_per_minute, turns."""
        facts = await self._team_facts(
            lambda facts, _: agent_rules.limited(facts, changes), by=by, op="team.limits"
        )
        return facts.bounds

    async def take_lead(self, lease: LeadLease, *, by: str, holder_gone: bool = False) -> LeadLease:
        """Lead the team from this process until the lease is over; again to renew it.

        Raises:
            Conflict: another process leads.
        """
        now = self._clock()
        await self._team_facts(
            lambda facts, _: agent_rules.take_lead(
                facts, lease, now_ms=now, holder_gone=holder_gone
            ),
            by=by,
            op="lead.take",
        )
        return lease

    async def drop_lead(self, nonce: str, *, by: str) -> None:
        """Lead no longer. Nothing happens if another process leads by now."""
        await self._team_facts(
            lambda facts, _: agent_rules.drop_lead(facts, nonce), by=by, op="lead.drop"
        )

    async def leader(self) -> LeadLease | None:
        """Who leads, or led last."""
        return (await self._store.config(self._team)).facts.lead_lease

    async def finish(self, *, by: str, summary: str, override: str | None = None) -> Finished:
        """Say that the goal is reached.

        Raises:
            Refused: not_lead; open_tasks while tasks are not completed, unless `override` says
                why they may stay open.
        """
        now = self._clock()
        result = agent_rules.finished(by, summary, override, now)

        def change(facts: TeamFacts, view: View) -> TeamFacts:
            agent_rules.check_finish(view.team, view.tasks().values(), by=by, override=override)
            return facts.evolve(finished=result.raw)

        await self._team_facts(change, by=by, op="team.finish")
        return result

    async def unfinish(self, *, by: str) -> None:
        """Take up a team again that had finished: there is a new goal."""
        await self._team_facts(
            lambda facts, _: facts.evolve(finished=None), by=by, op="team.unfinish"
        )

    async def result(self) -> Finished | None:
        """How the lead finished, if it did."""
        return (await self._store.config(self._team)).facts.result

    async def _team_facts(
        self, change: Callable[[TeamFacts, View], TeamFacts], *, by: str, op: str
    ) -> TeamFacts:
        def decide(view: View) -> tuple[TeamFacts, list[Change]]:
            before = view.team.facts
            after = change(before, view)
            return after, [] if after == before else [PutTeam({"bullpen": after.raw})]

        return await self._settle(decide, by=by, op=op)
