"""Plan mode of an agent: entering it, and leaving it by an approval that is in the store."""

from __future__ import annotations

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, PutMember, PutRequest
from bullpen.store.base import View
from bullpen.team import agent_rules, plan_rules, request_rules
from bullpen.team.decision import Part
from bullpen.team.plan_rules import PlanStatus


class Plans(Part):
    """The plans of the agents of one team. A launch proves who it is by its nonce."""

    async def enter(self, name: str, *, nonce: str) -> AgentFacts:
        """Put an agent into plan mode."""

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            after = plan_rules.entered(agent)
            return after, [PutMember(member.evolve(bullpen=after.raw, mode=after.mode))]

        return await self._settle(decide, by=name, op="plan.enter")

    async def settle(self, name: str, *, nonce: str) -> PlanStatus:
        """Act on the answer to the plan that an agent submitted last, if there is one.

        The store's record of the request decides, whatever anybody wrote in a message. A plan
        that nobody answered by its deadline is rejected.
        """
        now = self._clock()

        def decide(view: View) -> tuple[PlanStatus, list[Change]]:
            member, agent = agent_rules.current(view.team, name, nonce)
            plan = agent.stands.submitted
            request = view.request(plan.request_id) if plan is not None else None
            changes: list[Change] = []
            if request is not None and request_rules.is_overdue(request, now):
                request = request_rules.expired(request, now_ms=now)
                changes.append(PutRequest(request))
            status, after = plan_rules.settled(agent, request)
            if after != agent:
                # Other programs look at the mode in the row.
                changes.append(PutMember(member.evolve(bullpen=after.raw, mode=after.mode)))
            return status, changes

        return await self._settle(decide, by=name, op="plan.settle")
