"""Plans: what an agent submitted last, and when it may leave plan mode. Pure.

Only the plan that was submitted last counts, only as it was submitted, and only if somebody
approved it who may. Everything else leaves the agent in plan mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, PutMember, PutRequest
from bullpen.protocol.policy import Mode, Plan, Standing
from bullpen.protocol.request import Request
from bullpen.store.base import View
from bullpen.team import request_rules
from bullpen.team.policy_rules import mode_after_plan, wider_mode

Answer = Literal["none", "waiting", "approved", "rejected"]

REPLACED = "Another plan was submitted in its place."


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """How it stands with an agent's plan: what came of it, and the mode it is in now."""

    answer: Answer
    mode: Mode
    request: Request | None = None
    feedback: str | None = None


def submitted(view: View, request: Request, *, now_ms: int) -> list[Change]:
    """What a new plan changes of the agent that submits it. Older ones can be answered no more."""
    member = view.team.member(request.sender)
    agent = member.agent if member is not None else None
    if member is None or agent is None or request.digest is None:
        return []
    plan = Plan.new(
        request_id=request.id, digest=request.digest, path=request.subject.get("planFilePath")
    )
    after = agent.evolve(standing=agent.stands.evolve(plan=plan.raw).raw)
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
    """The agent in plan mode. What it submitted before counts no more."""
    return _standing(agent, agent.stands.evolve(mode="plan", plan=None))


def settled(agent: AgentFacts, request: Request | None) -> tuple[PlanStatus, AgentFacts]:
    """How it stands with the plan of an agent, and the agent after that.

    `request` is the one that its standing names, as it is now in the store.
    """
    plan = agent.stands.submitted
    if plan is None:
        return PlanStatus("none", agent.mode), agent
    if request is not None and request.state == "pending":
        return PlanStatus("waiting", agent.mode, request), agent
    cleared = agent.stands.evolve(plan=None)
    if request is None or not _approves(request, plan):
        words = (request.answer or {}).get("feedback") if request is not None else None
        after = _standing(agent, cleared)
        return PlanStatus("rejected", after.mode, request, words), after
    mode = _mode_of(request, agent)
    after = _standing(agent, cleared.evolve(mode=mode))
    words = (request.answer or {}).get("feedback")
    return PlanStatus("approved", mode, request, words), after


def _standing(agent: AgentFacts, stands: Standing) -> AgentFacts:
    return agent.evolve(standing=stands.raw)


def _approves(request: Request, plan: Plan) -> bool:
    """Whether a request is an approval of exactly this plan by somebody who may."""
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


def _mode_of(request: Request, agent: AgentFacts) -> Mode:
    """The mode that the answer gives, never wider than what the agent was spawned with."""
    widest = mode_after_plan(agent)
    match (request.answer or {}).get("permissionMode"):
        case "default" | "acceptEdits" | "bypassPermissions" | "delegate" | "dontAsk" as mode:
            return widest if wider_mode(mode, widest) else mode
        case _:
            return widest
