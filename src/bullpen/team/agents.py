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
    Spent,
    TeamFacts,
)
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask, PutTeam
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Voice
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso
from bullpen.store.base import View
from bullpen.team import agent_rules, budget_rules, rules
from bullpen.team.budget_rules import OverBudget, Reached
from bullpen.team.decision import Part
from bullpen.team.lookup import in_hand, leads, member_of
from bullpen.team.notices import notice, prompt
from bullpen.team.roster import leaving, new_member


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


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that has begun: how long it may last, and the task it is for, if it is for one."""

    agent: AgentFacts
    seconds_left: float | None
    task: str | None


@dataclass(frozen=True, slots=True)
class Booked:
    """What was used is recorded. `reached` is the limit that was met, if one was."""

    agent: AgentFacts
    task: str | None
    reached: Reached | None


class Agents(Part):
    """The agents of one team. A launch proves who it is by its nonce."""

    async def register(
        self,
        name: str,
        spec: AgentSpec,
        *,
        by: str,
        nonce: str,
        key: str | None = None,
        in_place: bool = False,
    ) -> Registration:
        """Record an agent that is about to be started.

        With a key that was used before, the agent of that key is the answer and nothing changes.
        The lead can be registered too: its row is there already. With `in_place` so is that of
        any other, because another program has added it: the agent takes its place.

        Raises:
            Refused: agents_limit, depth_limit, spawn_rate, or a budget that is used up.
            Conflict: the name is taken; `in_place`, by an agent of ours that has not ended.
            NotFound: `in_place`, there is no such member.
        """
        if not in_place:
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
            if lead or in_place:
                row = member_of(team, name)
                agent = agent_rules.succeeding(row, agent)
            else:
                row = new_member(team, name, spec, now_ms=now)
            row = row.evolve(bullpen=agent.raw, cwd=spec.cwd, worktree_path=spec.worktree_path)
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
            Refused: the team has as many agents as it may (agents_limit).
        """
        now = self._clock()

        def decide(view: View) -> tuple[Registration, list[Change]]:
            member = member_of(view.team, name)
            agent = agent_rules.relaunched(
                view.team, member, nonce=nonce, expect=expect, now_ms=now
            )
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
                return None, leaving(view.team, member)
            ended = agent_rules.ended(agent, "failed", cause, now)
            return None, [PutMember(member.evolve(bullpen=ended.raw, is_active=False))]

        await self._settle(decide, by=by, op="agent.withdraw")

    async def waiting(self, name: str, *, nonce: str) -> Registration:
        """A launch that waits for a machine, by no older word. Raises Conflict, NotFound."""

        def decide(view: View) -> tuple[Registration, list[Change]]:
            return Registration(*agent_rules.waiting(view.team, name, nonce), fresh=False), []

        return await self._settle(decide, by=name, op="agent.waiting")

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

    async def begin_turn(self, name: str, *, nonce: str, task: str | None = None) -> Turn:
        """Record that a turn begins, for the task if the agent has it in progress.

        Raises:
            OverBudget: nothing is left of a budget of the team, the agent or the task.
            Conflict: this launch may no longer act.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Turn, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            own = in_hand(view, name, task)
            reached = budget_rules.met(view.team, name, agent, own, now_ms=now, turn=True)
            if reached is not None:
                raise OverBudget(reached)
            task_id = None if own is None else own.id
            after = budget_rules.with_turn(agent, task_id)
            left = budget_rules.seconds_left(view.team, agent, now)
            row = member.evolve(is_active=True, bullpen=after.raw)
            return Turn(after, left, task_id), [PutMember(row)]

        return await self._settle(decide, by=name, op="agent.turn")

    async def spend(
        self, name: str, *, nonce: str, reports: Mapping[int, Spent], task: str | None
    ) -> Booked:
        """Record what was used, by the numbers of its reports, and look what is left.

        A report counts once, however often it is told. `task` is what the next request would be
        for, if the agent has it in progress.

        Raises:
            Conflict: this launch may no longer act.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Booked, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = budget_rules.reported(agent, reports)
            row = member.evolve(bullpen=after.raw)
            own = in_hand(view, name, task)
            reached = budget_rules.met(
                view.team.with_member(row), name, after, own, now_ms=now, turn=False
            )
            booked = Booked(after, None if own is None else own.id, reached)
            return booked, [] if after == agent else [PutMember(row)]

        return await self._settle(decide, by=name, op="agent.spend")

    async def end_turn(
        self,
        name: str,
        *,
        nonce: str,
        reports: Mapping[int, Spent],
        idle: IdleNotification | None,
    ) -> AgentFacts:
        """Record that a turn is over and what it used, and tell the lead, all in one commit.

        `reports` is what was not recorded yet; the turn was counted when it began.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = budget_rules.reported(agent, reports)
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
        self,
        name: str,
        end: End,
        *,
        by: str,
        nonce: str,
        cause: str | None = None,
        reached: Reached | None = None,
    ) -> Ending | None:
        """Record that a launch has ended; its unfinished tasks are pending again, fenced off.

        An agent that is suspended keeps its tasks: it goes on with them. A guest leaves the team.
        The lead is told of an agent that failed, was lost, or met a limit for the first time
        (`reached`), in the same commit. None if another launch has taken its place, or it had
        ended before.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Ending | None, list[Change]]:
            found = agent_rules.living_launch(view.team, name, nonce)
            if found is None:
                return None, []
            member, agent = found
            after = agent_rules.ended(agent, end, cause, now)
            news = reached is not None and reached.key not in agent.met
            if reached is not None:
                met = [*agent.met, reached.key] if news else agent.met
                after = after.evolve(met=met, at_limit=reached.key)
            how, why = after.end, after.cause or "no cause is known"
            keeps = how == "suspended"
            reason = f"{name} {how}: {why}"
            tasks = [] if keeps else rules.released_from(view, name, reason=reason)
            row, guest = member.evolve(is_active=False, bullpen=after.raw), agent.asked.is_guest
            left = leaving(view.team, row) if guest and not keeps else None
            changes: list[Change] = left or [PutMember(row)]
            changes += (PutTask(task) for task in tasks)
            # Of one that never was ready, whoever spawned it is told.
            told = (agent.phase == "running" or guest) and not member.is_lead
            if (how in ("failed", "lost") or news) and told:
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

    async def limit(self, *, by: str, voice: Voice = "human", **changes: float | None) -> Limits:
        """Change some limits: agents, depth, spawns_per_minute, turns, tokens, usd, wall_s.

        Of the last three, None takes the limit away. `voice` says who speaks in the name of `by`.

        Raises:
            Refused: not_a_person.
            Invalid: an amount that is none.
        """
        facts = await self._team_facts(
            lambda _, view: agent_rules.limited(view.team, voice, changes), by=by, op="team.limits"
        )
        return facts.bounds

    async def grant(
        self,
        *,
        by: str,
        turns: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
    ) -> Limits:
        """Limit the team to so much more than it has used; what is None stays as it is."""

        def change(_: TeamFacts, view: View) -> TeamFacts:
            used = budget_rules.total(view.team)
            more = {
                "turns": None if turns is None else used.turns + turns,
                "tokens": None if tokens is None else used.tokens + tokens,
                "usd": None if usd is None else used.cost_usd + usd,
            }
            given = {name: most for name, most in more.items() if most is not None}
            return agent_rules.limited(view.team, "human", given)

        return (await self._team_facts(change, by=by, op="team.limits")).bounds

    async def rebudget(
        self, name: str, *, by: str, voice: Voice = "human", **changes: float | None
    ) -> AgentFacts:
        """Change what one agent may use: turns, tokens, usd, wall_s; None takes a limit away.

        Raises:
            Refused: not_a_person.
            Invalid: an amount that is none.
        """

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.agent_of(view.team, name)
            after = agent_rules.rebudgeted(agent, voice, changes)
            return after, [PutMember(member.evolve(bullpen=after.raw))]

        return await self._settle(decide, by=by, op="agent.budget")

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
        """Take up a team again that had finished: there is a new goal, and time counts anew."""
        now = self._clock()
        await self._team_facts(
            lambda facts, _: facts.evolve(finished=None, began_ms=now), by=by, op="team.unfinish"
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
