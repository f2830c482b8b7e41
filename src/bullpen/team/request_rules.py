"""Questions that wait for an answer: who may answer, when, and what the asker is told.

Pure. A question is answered at most once; without an answer by its deadline it is a no.
"""

from __future__ import annotations

from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import (
    Payload,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    ShutdownApproved,
    ShutdownRejected,
    ShutdownRequest,
)
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.times import iso
from bullpen.team.lookup import leads, member_of

NO_ANSWER = "No answer by the deadline."
"""What the asker is told when nobody answered."""


def check_ask(team: TeamConfig, *, by: str, to: str) -> None:
    """Refuse a question from or to somebody who is no member, or of a teammate to itself."""
    member_of(team, by)
    member_of(team, to)
    if by == to and not leads(team, by):
        raise Refused(
            f"{by!r} cannot answer its own request.",
            reason="not_approver",
            remedy=f"Ask another member, for example {LEAD!r}.",
        )


def is_overdue(request: Request, now_ms: int) -> bool:
    """Whether a pending request is past its deadline, and so a no."""
    return (
        request.state == "pending"
        and request.deadline_ms is not None
        and request.deadline_ms <= now_ms
    )


def check_answer(request: Request, team: TeamConfig, *, by: str, digest: str | None) -> None:
    """Refuse an answer that does not count.

    Raises:
        Refused: not_approver, already_answered, expired or wrong_digest, looked for in this order.
            Who was asked may answer, and the lead; nobody else, and no asker itself.
    """
    asked_by_itself = by == request.sender and by != request.to
    if asked_by_itself or not (by == request.to or leads(team, by)):
        raise Refused(
            f"{by!r} cannot answer request {request.id!r}, which {request.sender!r} asked.",
            reason="not_approver",
            remedy=f"{request.to!r} was asked.",
        )
    if request.state == "expired":
        raise too_late(request)
    if request.state != "pending":
        raise Refused(
            f"Request {request.id!r} was {request.state} by {request.answered_by!r} already.",
            reason="already_answered",
            remedy="An answer stands; a new question needs a new request.",
        )
    if digest is not None and digest != request.digest:
        raise Refused(
            f"Request {request.id!r} is about something else than this answer.",
            reason="wrong_digest",
            remedy="Look at the request again and answer what it asks.",
        )


def too_late(request: Request) -> Refused:
    """The refusal of an answer after the deadline."""
    return Refused(
        f"Request {request.id!r} is past its deadline, which made it a no.",
        reason="expired",
        remedy="It takes a new request.",
    )


def check_extras(request: Request, *, updated_input: Any, permission_mode: str | None) -> None:
    """Refuse what this kind of request cannot be answered with."""
    if updated_input is not None and request.kind != "permission":
        raise Invalid(
            f"Request {request.id!r} is no tool call whose input an answer could change.",
            remedy="Leave the input out.",
        )
    if permission_mode is not None and request.kind != "plan":
        raise Invalid(
            f"Request {request.id!r} is no plan after which a mode could begin.",
            remedy="Leave the mode out.",
        )


def answered(
    request: Request,
    *,
    approve: bool,
    by: str,
    now_ms: int,
    feedback: str | None = None,
    updated_input: Any = None,
    permission_mode: str | None = None,
) -> Request:
    """The request with its answer."""
    extras = {
        "feedback": feedback,
        "updatedInput": updated_input,
        "permissionMode": permission_mode,
    }
    return request.evolve(
        state="approved" if approve else "denied",
        answered_by=by,
        answered_ms=now_ms,
        answer={key: value for key, value in extras.items() if value is not None} or None,
    )


def expired(request: Request, *, now_ms: int) -> Request:
    """The request that nobody answered in time: a no."""
    return request.evolve(state="expired", answered_ms=now_ms, answer={"feedback": NO_ANSWER})


def question(request: Request) -> Payload:
    """The payload that asks."""
    subject, timestamp = request.subject, iso(request.created_ms)
    if request.kind == "shutdown":
        return ShutdownRequest.new(
            request_id=request.id,
            sender=request.sender,
            reason=subject.get("reason"),
            timestamp=timestamp,
        )
    if request.kind == "plan":
        return PlanApprovalRequest.new(
            sender=request.sender,
            timestamp=timestamp,
            plan_file_path=subject.get("planFilePath"),
            plan_content=subject["plan"],
            request_id=request.id,
        )
    return PermissionRequest.new(
        request_id=request.id,
        agent_id=request.sender,
        tool_name=subject["toolName"],
        tool_use_id=subject.get("toolUseId"),
        description=subject.get("description"),
        input=subject.get("input"),
        permission_suggestions=subject["suggestions"],
    )


def verdict(request: Request, team: TeamConfig) -> Payload:
    """The payload that tells the asker what came of an answered or expired request."""
    timestamp = iso(request.answered_ms or request.created_ms)
    approved = request.state == "approved"
    answer = request.answer or {}
    if request.kind == "shutdown":
        return _shutdown_verdict(request, team, approved, answer, timestamp)
    if request.kind == "permission":
        return _permission_verdict(request, approved, answer)
    return PlanApprovalResponse.new(
        request_id=request.id,
        approved=approved,
        feedback=answer.get("feedback"),
        timestamp=timestamp,
        permission_mode=answer.get("permissionMode", "default") if approved else None,
        plan_digest=request.digest if approved else None,
    )


def _shutdown_verdict(
    request: Request, team: TeamConfig, approved: bool, answer: dict[str, Any], timestamp: str
) -> Payload:
    if not approved:
        return ShutdownRejected.new(
            request_id=request.id,
            sender=request.to,
            reason=answer.get("feedback", "No reason was given."),
            timestamp=timestamp,
        )
    member = team.member(request.to)
    return ShutdownApproved.new(
        request_id=request.id,
        sender=request.to,
        timestamp=timestamp,
        pane_id=(member.tmux_pane_id or None) if member else None,
        backend_type=member.backend_type if member else None,
    )


def _permission_verdict(request: Request, approved: bool, answer: dict[str, Any]) -> Payload:
    tool_use_id = request.subject.get("toolUseId")
    call = {
        "tool_use_id": tool_use_id,
        "tool_name": request.subject["toolName"],
        "input_digest": request.digest,
    }
    updated = answer.get("updatedInput", request.subject.get("input"))
    return PermissionResponse.new(
        request_id=request.id,
        subtype="success" if approved else "error",
        tool_use_id=tool_use_id,
        approved_request={key: value for key, value in call.items() if value is not None},
        response={"updated_input": updated} if approved else None,
        error=None if approved else answer.get("feedback", "Permission denied"),
    )
