"""The turns of agents: how they begin, what they use, how they end. Each change is one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bullpen.errors import Unreadable
from bullpen.protocol.agent import AgentFacts, Spent
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.store.contract import View
from bullpen.team.agents import rules as agent_rules
from bullpen.team.budget import account_rules
from bullpen.team.budget import rules as budget_rules
from bullpen.team.budget.rules import OverBudget, Reached
from bullpen.team.lookup import find, in_hand, leads
from bullpen.team.mail.operations import notice
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks import stall_changes
from bullpen.team.tasks.check_rules import is_done


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A turn that has started: its task, if it has one, how long it may take, and its requests."""

    agent: AgentFacts
    seconds_left: float | None
    task: str | None
    requests_max: int


@dataclass(frozen=True, slots=True)
class Booked:
    """The result of recording usage. `reached` is the limit that was reached, if any."""

    agent: AgentFacts
    task: str | None
    reached: Reached | None


class Turns(TeamPart):
    """The turns of one team's agents. A launch proves its identity with its nonce."""

    @operation
    async def remind(
        self, name: str, tasks: Sequence[str], *, nonce: str, times: int, most: int
    ) -> None:
        """Record that an agent is reminded of tasks, so that people see it.

        Raises Conflict if this launch may no longer act.
        """
        now = self._clock()

        def decide(view: View) -> tuple[None, list[Change]]:
            agent_rules.current(view.team, name, nonce)
            found = stall_changes.reminded(view, tasks, by=name, times=times, most=most, now_ms=now)
            return None, [PutTask(task) for task in found]

        await self._settle(decide, by=name, op="task.remind")

    @operation
    async def begin_turn(
        self, name: str, *, nonce: str, task: str | None = None, number: int | None = None
    ) -> AgentTurn:
        """Record the start of a turn, for `task` if the agent has it in progress.

        With `number`, the number that the turn gets, a call that is repeated counts once. An
        account that got too long is shortened.

        Raises:
            OverBudget: a budget of the team, the agent or the task is used up.
            Conflict: this launch may no longer act.
        """
        now = self._clock()

        def decide(view: View) -> tuple[tuple[AgentTurn, bool], list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            is_long = account_rules.is_long(view.team, agent)
            own = in_hand(view, name, task)
            task_id = None if own is None else own.id
            left = budget_rules.seconds_left(view.team, agent, now)
            requests = view.team.facts.limits.requests
            if number is not None and agent.usage.turns >= number:
                return (AgentTurn(agent, left, task_id, requests), is_long), []
            reached = budget_rules.met(view.team, name, agent, own, now_ms=now, turn=True)
            if reached is not None:
                raise OverBudget(reached)
            after = budget_rules.with_turn(agent, task_id)
            row = member.evolve(is_active=True, bullpen=after.raw)
            return (AgentTurn(after, left, task_id, requests), is_long), [PutMember(row)]

        turn, is_long = await self._settle(decide, by=name, op="agent.turn")
        if is_long:
            await self._shorten_account(name)
        return turn

    async def _shorten_account(self, name: str) -> None:
        # A commit of its own: it changes members that have no turn now.
        def decide(view: View) -> tuple[None, list[Change]]:
            def is_settled(task_id: str) -> bool:
                try:
                    task = find(view, task_id)
                except Unreadable:
                    return False
                return task is None or (is_done(task) and not task.facts.budget.raw)

            return None, account_rules.shortened(view.team, name, is_settled)

        await self._settle(decide, by=name, op="agent.account")

    @operation
    async def spend(
        self, name: str, *, nonce: str, reports: Mapping[int, Spent], task: str | None
    ) -> Booked:
        """Record usage by report number, and check what is left.

        A report counts once, even if it is sent again. `task` is the task of the next request, if
        the agent has it in progress.

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

    @operation
    async def end_turn(
        self,
        name: str,
        *,
        nonce: str,
        reports: Mapping[int, Spent],
        idle: IdleNotification | None,
        number: int | None = None,
    ) -> AgentFacts:
        """Record the end of a turn and its usage, and tell the lead, in one commit.

        `reports` is the usage that is not recorded yet. The turn itself was counted when it
        started. With its `number`, a call that is repeated tells the lead once.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = budget_rules.reported(agent, reports)
            if number is not None and agent.turn_ended >= number:
                return after, [] if after == agent else [
                    PutMember(member.evolve(bullpen=after.raw))
                ]
            if number is not None:
                after = after.evolve(turn_ended=number)
            changes: list[Change] = [PutMember(member.evolve(is_active=False, bullpen=after.raw))]
            if idle is not None and not leads(view.team, name):
                message = notice(
                    idle, team=view.team, sender=name, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(LEAD, message, fresh=True))
            return after, changes

        return await self._settle(decide, by=name, op="agent.idle")
