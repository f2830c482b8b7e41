"""Questions of an agent to a person: asked durably, answered once, never waited for without end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.system.secrets import with_texts
from bullpen.errors import Refused
from bullpen.protocol import json_text, names
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.team.requests.mode_rules import approver_of

_GO_ON = "Decide yourself what is safest, say what you assumed, and go on."


async def ask_person(
    desk: Desk,
    questions: Sequence[Mapping[str, Any]],
    wait: Callable[[Request, str], Awaitable[Request]],
) -> str:
    """Ask, and wait until the agent's deadline for answers. Returns what to tell the model.

    Raises Refused: no_person, if nobody answers questions of this agent.
    """
    policy = (await desk.team.agents.get(desk.agent))[1].spec.policy
    approver = approver_of(policy, leads=desk.agent == LEAD)
    if approver == "lead":
        raise Refused(
            "A person does not answer questions of teammates here. Nobody was asked.",
            reason="no_person",
            remedy="Ask the lead with SendMessage.",
        )
    if approver == "policy":
        raise Refused(
            "Nobody answers questions in this run. Nobody was asked.",
            reason="no_person",
            remedy=_GO_ON,
        )
    asked = with_texts([dict(each) for each in questions], desk.redacted)
    request = await _request(desk, asked, policy.deadline_s)
    if request.state == "pending":
        request = await wait(request, f"an answer from a person ({request.id})")
    words = (request.answer or {}).get("feedback")
    if request.state == "approved":
        return f"A person answered: {words}"
    if request.state == "expired":
        return f"Nobody answered in time. {_GO_ON}"
    return f"A person chose not to answer{f': {words}' if words else '.'} {_GO_ON}"


async def _request(desk: Desk, asked: Sequence[Any], deadline_s: float) -> Request:
    """The request with these questions: a valid one from before a restart, or a new one."""
    approvals = desk.team.approvals
    digest = names.input_digest("question", json_text.dumps_line(list(asked)))
    for request in (await approvals.all()).values():
        mine = request.kind == "question" and request.sender == desk.agent
        if not mine or request.digest != digest:
            continue
        waits = request.state == "pending" and not approvals.overdue(request)
        if waits or approvals.usable(request):
            return request
    return await approvals.ask_question(asked, by=desk.agent, deadline_s=deadline_s)
