"""Rules for plans: what an agent submitted last, and when it may leave plan mode. Pure.

Only the latest plan counts, exactly as submitted, and only if an approver approved it. In all other
cases the agent stays in plan mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, PutMember, PutRequest
from bullpen.protocol.policy import Mode, Plan, Standing
from bullpen.protocol.request import Request
from bullpen.store.contract import View
from bullpen.team.requests import rules as request_rules
from bullpen.team.requests.mode_rules import mode_given

Answer = Literal["none", "waiting", "approved", "rejected"]

REPLACED = "A newer plan replaced it."


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The state of an agent's plan: its result, and the agent's current mode."""

    answer: Answer
    mode: Mode
    request: Request | None = None
    feedback: str | None = None


def submitted(view: View, request: Request, *, now_ms: int) -> list[Change]:
    """Return what a new plan changes for its agent. Earlier plans can no longer be answered."""
    member = view.team.member(request.sender)
    agent = member.agent if member is not None else None
    if member is None or agent is None or request.digest is None:
        return []
    plan = Plan.new(
        request_id=request.id, digest=request.digest, path=request.subject.get("planFilePath")
    )
    after = agent.evolve(standing=agent.standing.evolve(plan=plan.raw).raw)
    older: list[Change] = [
        PutRequest(request_rules.expired(other, now_ms=now_ms, why=REPLACED))
        for other in view.requests().values()
        if other.kind == "plan"
        and other.sender == request.sender
        and other.state == "pending"
        and other.id != request.id
    ]
    return [*older, PutMember(member.evolve(bullpen=after.raw))]


def entered(agent: AgentFacts) -> AgentFacts:
    """Return the agent in plan mode. Plans it submitted before no longer count."""
    return _standing(agent, agent.standing.evolve(mode="plan", plan=None, mode_by=None))


def settled(agent: AgentFacts, request: Request | None) -> tuple[PlanStatus, AgentFacts]:
    """Return the state of an agent's plan, and the agent after it is applied.

    `request` is the request named in its standing, as the store has it now.
    """
    plan = agent.standing.plan
    if plan is None:
        return PlanStatus("none", agent.mode), agent
    if request is not None and request.state == "pending":
        return PlanStatus("waiting", agent.mode, request), agent
    cleared = agent.standing.evolve(plan=None)
    if request is None or not _approves(request, plan):
        words = (request.answer or {}).get("feedback") if request is not None else None
        after = _standing(agent, cleared)
        return PlanStatus("rejected", after.mode, request, words), after
    mode = mode_given(agent, (request.answer or {}).get("permissionMode"))
    after = _standing(agent, cleared.evolve(mode=mode, mode_by=None))
    words = (request.answer or {}).get("feedback")
    return PlanStatus("approved", mode, request, words), after


def _standing(agent: AgentFacts, stands: Standing) -> AgentFacts:
    return agent.evolve(standing=stands.raw)


def _approves(request: Request, plan: Plan) -> bool:
    """Return whether a request approves exactly this plan, answered by somebody who may."""
    text = request.subject.get("plan")
    return (
        request.kind == "plan"
        and request.state == "approved"
        and request.id == plan.request_id
        and request.digest == plan.digest
        and isinstance(text, str)
        and names.plan_digest(text) == plan.digest
        and request.voice is not None
        and request_rules.may_answer(request, request.voice)
    )
