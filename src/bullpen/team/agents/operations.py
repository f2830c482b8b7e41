"""Operations on the agents of a team, from registration to end. Each change is one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts, AgentSpec, End, Failure, ProcessRecord
from bullpen.protocol.changes import Change, Deliver, PutMember, PutRequest, PutTask, PutTeam
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import Limits, Member, TeamConfig, TeamFacts
from bullpen.store.contract import View
from bullpen.team.agents import rules as agent_rules
from bullpen.team.agents.leading import Leading
from bullpen.team.agents.rules import Registration
from bullpen.team.budget import rules as budget_rules
from bullpen.team.budget.rules import Reached
from bullpen.team.lead_rules import refuse_strangers
from bullpen.team.lookup import member_of
from bullpen.team.mail.not_started import Writers
from bullpen.team.mail.operations import first_message, notice
from bullpen.team.operation import operation
from bullpen.team.roster import farewell, leaving, new_member, requests_left, tasks_left
from bullpen.team.tasks import rules

_BY_OTHERS: tuple[End, ...] = ("stopped", "suspended")
"""Ends of an agent that is starting which are not the failure of its start."""

_ENDED_FOR_NOW: tuple[End, ...] = ("stopped", "finished", "failed")
"""Ends after which nothing goes on by itself. A suspended or lost agent can still use an answer."""


@dataclass(frozen=True, slots=True)
class Ending:
    """An agent that ended, and its tasks that went back to pending."""

    agent: AgentFacts
    released: tuple[Task, ...]


class Agents(Leading):
    """The agents of one team. A launch proves its identity with its nonce."""

    @operation
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
        """Record an agent before it is started.

        If `key` was used before, return the agent with that key and change nothing. The lead can be
        registered even though it is already in the roster. With `in_place`, so can any other
        member: another program added it, and the agent takes its place.

        Raises:
            Refused: not_lead, agents_limit, depth_limit, spawn_rate, or a budget that is used up.
            Conflict: the name is taken; with `in_place`, by an agent that has not ended.
            NotFound: with `in_place`, there is no such member.
        """
        if not in_place:
            names.check_new_name(name, kind="member")
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Registration, list[Change]]:
            team = view.team
            held = agent_rules.with_key(team, key) if key is not None else None
            if held is not None and held.agent is not None:
                return Registration(held, held.agent, fresh=held.agent.nonce == nonce), []
            again = agent_rules.launched(team, name, nonce)
            if again is not None:
                return again, []
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
                agent = agent_rules.succeeding(team, row, agent)
                # The entry of a member that another program added names that program's choice.
                row = row.evolve(model=spec.model) if lead else row
            else:
                row = new_member(team, name, spec, now_ms=now)
            row = row.evolve(bullpen=agent.raw, cwd=spec.cwd, worktree_path=spec.worktree_path)
            facts = agent_rules.spawned(team, now)
            changes: list[Change] = [PutMember(row), PutTeam({"bullpen": facts.raw})]
            return Registration(row, agent, fresh=True), changes

        return await self._settle(decide, by=by, op="agent.spawn")

    @operation
    async def relaunch(
        self,
        name: str,
        *,
        by: str,
        nonce: str,
        expect: str | None = None,
    ) -> Registration:
        """Record that an agent is about to be started again. Earlier launches can no longer act.

        Raises:
            Conflict: its nonce is no longer `expect`: another process started it.
            Refused: the team has reached its limit of agents (agents_limit).
        """
        now = self._clock()

        def decide(view: View) -> tuple[Registration, list[Change]]:
            again = agent_rules.launched(view.team, name, nonce)
            if again is not None:
                return again, []
            member = member_of(view.team, name)
            agent = agent_rules.relaunched(
                view.team, member, by=by, nonce=nonce, expect=expect, now_ms=now
            )
            row = agent_rules.in_roster(member, agent, is_active=False)
            changes: list[Change] = [PutMember(row)]
            began = budget_rules.began_ms(view.team, now)
            if began != view.team.facts.began_ms:
                changes.append(PutTeam({"bullpen": view.team.facts.evolve(began_ms=began).raw}))
            return Registration(row, agent, fresh=True), changes

        return await self._settle(decide, by=by, op="agent.resume")

    @operation
    async def withdraw(
        self,
        name: str,
        *,
        by: str,
        nonce: str,
        cause: str,
        end: End = "failed",
        tell: str | None = None,
    ) -> None:
        """Undo a registration after a failed start: remove a new member, end an existing one.

        Its mail waits for another agent of its name, and those who wrote it are told. With `tell`,
        what can be done about it, so is `by`, unless somebody ended the agent meanwhile.
        """
        now = self._clock()
        writers = Writers(self._store, self._team, name, nonce=nonce)
        await writers.look()

        def decide(view: View) -> tuple[bool, list[Change]]:
            member, agent = agent_rules.agent_of(view.team, name)
            if agent.nonce != nonce:
                return False, []
            refuse_strangers(view.team, name, by, "withdraw", act="member.stop")
            if tell is not None and agent.end in _BY_OTHERS:
                # Whoever ends it records that, and tells those who wait for it.
                return False, []
            spawner = None if tell is None else (by, tell)
            # It may have become ready, claimed a task and asked somebody, at the last moment.
            freed = rules.released_from(view, name, reason=f"{name} failed: {cause}")
            changes: list[Change] = [PutTask(task) for task in freed]
            changes += map(PutRequest, requests_left(view.requests().values(), name, now_ms=now))
            changes += writers.told(view.team, cause, end=end, now_ms=now, spawner=spawner)
            if agent.launch == 1 and not member.is_lead:
                return True, [*leaving(view.team, member), *changes]
            ended = agent_rules.ended(agent, end, cause, now)
            row = agent_rules.in_roster(member, ended, is_active=False)
            return True, [PutMember(row), *changes]

        if await self._settle(decide, by=by, op="agent.withdraw"):
            await writers.tell_late(cause, end=end, by=by, now_ms=now)

    @operation
    async def take_back(self, name: str, *, by: str, nonce: str, instead: str) -> bool:
        """Give a launch that is not ready another nonce, so that it never will be.

        False if it is ready: somebody may use it by now.
        """

        def decide(view: View) -> tuple[bool, list[Change]]:
            member, agent = agent_rules.agent_of(view.team, name)
            refuse_strangers(view.team, name, by, "take back", act="member.stop")
            if agent.nonce != nonce:
                return True, []
            if agent.phase == "running":
                return False, []
            return True, [PutMember(member.evolve(bullpen=agent.evolve(nonce=instead).raw))]

        return await self._settle(decide, by=by, op="agent.take_back")

    @operation
    async def waiting(self, name: str, *, nonce: str) -> Registration:
        """Return a launch that is still waiting for a host. Raises Conflict or NotFound."""

        def decide(view: View) -> tuple[Registration, list[Change]]:
            return Registration(*agent_rules.waiting(view.team, name, nonce), fresh=False), []

        return await self._settle(decide, by=name, op="agent.waiting")

    @operation
    async def placed(self, name: str, *, nonce: str, place: ProcessRecord) -> AgentFacts:
        """Record where a launch runs. Raises Conflict if it may no longer act."""

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = agent.evolve(process=place.raw)
            if after == agent:
                return after, []
            return after, [PutMember(agent_rules.in_roster(member, after))]

        return await self._settle(decide, by=name, op="agent.placed")

    @operation
    async def ready(self, name: str, *, nonce: str, place: ProcessRecord) -> AgentFacts:
        """Record that a launch can receive mail, and where it runs.

        The prompt it was spawned with is put in its mailbox in the same commit.
        """
        now = self._clock()

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            known = {} if agent.process is None else agent.process.raw
            merged = {**known, **place.raw}
            after = agent.evolve(phase="running", since_ms=now, process=merged, prompt_id=None)
            changes: list[Change] = [PutMember(agent_rules.in_roster(member, after))]
            message = first_message(agent, name, team=view.team, now_ms=now)
            if message is not None:
                changes.append(Deliver(name, message))
            return after, changes

        return await self._settle(decide, by=name, op="agent.ready")

    @operation
    async def ending(self, name: str, end: End, *, by: str, nonce: str, cause: str) -> None:
        """Record how a launch will end before it is told to. A later report does not change it."""

        def decide(view: View) -> tuple[None, list[Change]]:
            found = agent_rules.living_launch(view.team, name, nonce, by=by)
            if found is None:
                return None, []
            member, agent = found
            after = agent.evolve(end=end, cause=cause)
            return None, [PutMember(member.evolve(bullpen=after.raw))]

        await self._settle(decide, by=by, op="agent.ending")

    @operation
    async def end(
        self,
        name: str,
        end: End,
        *,
        by: str,
        nonce: str,
        cause: str | None = None,
        reached: Reached | None = None,
        failure: Failure | None = None,
    ) -> Ending | None:
        """Record that a launch ended. Its unfinished tasks go back to pending as new attempts.

        A suspended agent keeps its tasks and continues them later. A guest leaves the team. If the
        agent failed, was lost or reached a limit for the first time (`reached`), or had unfinished
        tasks, the lead is told in the same commit. So are those who wrote to an agent that did not
        get ready. Returns None if the launch was replaced or had already ended.
        """
        now, message_id = self._clock(), self._new_id()
        writers = Writers(self._store, self._team, name, nonce=nonce)
        if await self._is_starting(name):
            await writers.look()

        def decide(view: View) -> tuple[Ending | None, list[Change]]:
            found = agent_rules.living_launch(view.team, name, nonce, by=by)
            if found is None:
                return None, []
            member, agent = found
            after = agent_rules.ended(agent, end, cause, now, failure=failure)
            news = reached is not None and reached.key not in agent.met
            if reached is not None:
                met = [*agent.met, reached.key] if news else agent.met
                after = after.evolve(met=met, at_limit=reached.key)
            how, why = after.end, after.cause or "the cause is unknown"
            keeps = how == "suspended"
            reason = f"{name} {how}: {why}"
            tasks = [] if keeps else rules.released_from(view, name, reason=reason)
            row, guest = agent_rules.in_roster(member, after, is_active=False), agent.spec.is_guest
            left = leaving(view.team, row) if guest and not keeps else None
            changes: list[Change] = left or [PutMember(row)]
            changes += (PutTask(task) for task in tasks)
            if how in _ENDED_FOR_NOW:
                asked = requests_left(view.requests().values(), name, now_ms=now)
                changes += map(PutRequest, asked)
            # If it was never ready, whoever started it is told, unless that process died too.
            unnoticed = how == "lost" and by != name
            if (agent.phase == "running" or guest or unnoticed) and not member.is_lead:
                failed = how in ("failed", "lost") or news
                told = _failure if failed else farewell
                changes += told(
                    view.team,
                    name,
                    f"{how}: {why}",
                    tasks,
                    message_id=message_id,
                    now_ms=now,
                )
            if agent.phase == "starting" and not keeps:
                changes += writers.told(view.team, why, end=how or end, now_ms=now)
            return Ending(after, tuple(tasks)), changes

        return await self._settle(decide, by=by, op="agent.end")

    async def _is_starting(self, name: str) -> bool:
        member = (await self._store.config(self._team)).member(name)
        agent = None if member is None else member.agent
        return agent is not None and agent.phase == "starting"

    async def get(self, name: str) -> tuple[Member, AgentFacts]:
        """Return an agent that Bullpen runs. Raises NotFound."""
        return agent_rules.agent_of(await self._store.config(self._team), name)

    async def living(self) -> list[tuple[Member, AgentFacts]]:
        """Return the agents that have not ended, according to the team's records."""
        config = await self._store.config(self._team)
        return [agent_rules.agent_of(config, m.name) for m in agent_rules.living(config)]

    @operation
    async def beat(self, presence: Presence) -> None:
        """Record a heartbeat."""
        await self._store.beat(self._team, presence)

    async def presence(self) -> Mapping[str, Presence]:
        """Return the last heartbeat of every member that ever sent one."""
        return await self._store.presence(self._team)

    async def config(self) -> TeamConfig:
        """Return the team with its members and Bullpen's facts about them."""
        return await self._store.config(self._team)

    async def limits(self) -> Limits:
        """Return the limits of the team."""
        return (await self.config()).facts.limits

    @operation
    async def limit(self, *, by: str, voice: Voice = "human", **changes: float | None) -> Limits:
        """Change limits: agents, depth, spawns_per_minute, turns, requests, tokens, usd, wall_s.

        None removes a limit on tokens, usd or wall_s. `voice` says who acts in the name of `by`.

        Raises:
            Refused: not_a_person.
            Invalid: an amount is not valid.
        """
        facts = await self._change_facts(
            lambda _, view: agent_rules.limited(view.team, voice, changes), by=by, op="team.limits"
        )
        return facts.limits

    @operation
    async def grant(
        self,
        *,
        by: str,
        turns: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
    ) -> Limits:
        """Set limits to the current usage plus these amounts. None leaves a limit as it is."""

        def change(_: TeamFacts, view: View) -> TeamFacts:
            used = budget_rules.total(view.team)
            more = {
                "turns": None if turns is None else used.turns + turns,
                "tokens": None if tokens is None else used.tokens + tokens,
                "usd": None if usd is None else used.cost_usd + usd,
            }
            given = {name: most for name, most in more.items() if most is not None}
            return agent_rules.limited(view.team, "human", given)

        return (await self._change_facts(change, by=by, op="team.limits")).limits

    @operation
    async def rebudget(
        self, name: str, *, by: str, voice: Voice = "human", **changes: float | None
    ) -> AgentFacts:
        """Change the budget of one agent: turns, tokens, usd, wall_s. None removes a limit.

        Raises:
            Refused: not_a_person.
            Invalid: an amount is not valid.
        """

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.agent_of(view.team, name)
            after = agent_rules.rebudgeted(agent, voice, changes)
            return after, [PutMember(member.evolve(bullpen=after.raw))]

        return await self._settle(decide, by=by, op="agent.budget")


def _failure(
    team: TeamConfig,
    name: str,
    how: str,
    left: Sequence[Task],
    *,
    message_id: str,
    now_ms: int,
) -> list[Change]:
    """Return the message that tells the lead how an agent failed, and which tasks it left."""
    words = f"{name} is {how}"
    payload = IdleNotification.new(
        sender=name,
        timestamp=iso(now_ms),
        idle_reason="failed",
        failure_reason=f"{words.rstrip('.')}. {tasks_left(left)}" if left else words,
    )
    message = notice(payload, team=team, sender=name, message_id=message_id, now_ms=now_ms)
    return [Deliver(LEAD, message, fresh=True)]
