"""Plan mode of an agent: entering it, and leaving it with a stored approval."""

from __future__ import annotations

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, PutMember, PutRequest
from bullpen.store.contract import View
from bullpen.team.agents import rules as agent_rules
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.requests import plan_rules
from bullpen.team.requests import rules as request_rules
from bullpen.team.requests.plan_rules import PlanStatus


class Plans(TeamPart):
    """The plans of the agents of one team. A launch proves its identity with its nonce."""

    @operation
    async def enter(self, name: str, *, nonce: str) -> AgentFacts:
        """Put an agent into plan mode."""

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = plan_rules.entered(agent)
            return after, [PutMember(member.evolve(bullpen=after.raw, mode=after.mode))]

        return await self._settle(decide, by=name, op="plan.enter")

    @operation
    async def settle(self, name: str, *, nonce: str) -> PlanStatus:
        """Apply the answer to the plan that an agent submitted last, if there is one.

        Only the stored request counts, not the text of any message. A plan without an answer by its
        deadline is rejected.
        """
        now = self._clock()

        def decide(view: View) -> tuple[PlanStatus, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            plan = agent.standing.plan
            request = view.request(plan.request_id) if plan is not None else None
            changes: list[Change] = []
            if request is not None and request_rules.is_overdue(request, now):
                request = request_rules.expired(request, now_ms=now)
                changes.append(PutRequest(request))
            status, after = plan_rules.settled(agent, request)
            if after != agent:
                # Other programs read the mode from the roster.
                changes.append(PutMember(member.evolve(bullpen=after.raw, mode=after.mode)))
            return status, changes

        return await self._settle(decide, by=name, op="plan.settle")
