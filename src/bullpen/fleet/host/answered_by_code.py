"""Answers that an agent's own runner records, in the name of the member that was asked.

Two kinds are true although the asker sends them: what the agent's policy lets code answer, and what
another program's lead wrote in a message. Each is proven by what is stored.
"""

from __future__ import annotations

from typing import Any

from bullpen.agents.runner.plan_mode import answer_content
from bullpen.errors import Refused
from bullpen.fleet.host.operation_rights import facts_of, other_identity
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import PermissionResponse, PlanApprovalResponse, payload_of
from bullpen.protocol.request import Request, Voice
from bullpen.team.requests.mode_rules import approver_of, plan_approver_of
from bullpen.team.team import Team

_BY_CODE = ("policy", "rule", "auto")


async def answer_in_name_of(
    caller: str, args: dict[str, Any], team: Team, *, claimed: str, voice: Voice | None
) -> tuple[str, Voice]:
    """Return in whose name and voice an agent may record this answer to its own request.

    What a message said replaces what the caller says that it said. Raises Refused.
    """
    request = (await team.approvals.all()).get(args["request_id"])
    if request is None or request.sender != caller or claimed != request.to:
        raise other_identity(caller, claimed)
    if voice == "policy":
        await _check_code(caller, request, team)
        return claimed, "policy"
    if request.approver is not None:
        raise _not_approver(caller, request)
    args |= await _said(caller, request, team)
    return claimed, "agent"


async def _check_code(caller: str, request: Request, team: Team) -> None:
    """Refuse an answer by code unless a person chose that code answers this agent."""
    facts = facts_of(await team.agents.config(), caller)
    if facts is None or request.kind == "shutdown":
        raise _not_approver(caller, request)
    find = plan_approver_of if request.kind == "plan" else approver_of
    approver = find(facts.spec.policy, leads=caller == LEAD)
    if approver not in _BY_CODE or request.approver != approver:
        raise _not_approver(caller, request)


async def _said(caller: str, request: Request, team: Team) -> dict[str, Any]:
    """Return the answer in the caller's mailbox that the member that was asked wrote."""
    box = await team.mailbox.read(caller, history=True)
    for entry in reversed(box.entries):
        answer = payload_of(entry.message.text)
        if entry.message.sender != request.to or not isinstance(
            answer, PermissionResponse | PlanApprovalResponse
        ):
            continue
        if answer.request_id == request.id:
            return answer_content(answer)
    raise _not_approver(caller, request)


def _not_approver(caller: str, request: Request) -> Refused:
    return Refused(
        f"{caller!r} made request {request.id!r}, so it cannot answer it.",
        reason="not_approver",
        remedy=f"{request.to!r} was asked.",
    )
