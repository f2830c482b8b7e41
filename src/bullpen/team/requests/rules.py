"""Rules for requests: who may answer, until when, and what the asker is told.

Pure. A request is answered at most once. No answer by its deadline means no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol import names
from bullpen.protocol.clock import iso
from bullpen.protocol.message import Message
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
    payload_of,
)
from bullpen.protocol.policy import DEFAULT_MODE, MODES
from bullpen.protocol.record.review import is_review
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.team import TeamConfig
from bullpen.team.lookup import leads, member_of
from bullpen.team.requests import always_rules
from bullpen.team.requests.mode_rules import mode_after_plan, mode_given, wider_mode
from bullpen.team.tasks.guarded_rules import is_hand_in

YES_HOLDS_MS = 3_600_000
"""How long an unused approval is valid. The asker may have to be restarted first."""

SETTLED_KEPT = 200
"""How many answered requests a team keeps in any case. All are in the log."""

_SETTLED_KEPT_MS = 86_400_000

NO_ANSWER = "No answer by the deadline."
"""What the asker is told when nobody answered."""


def check_ask(team: TeamConfig, *, by: str, to: str) -> None:
    """Refuse a request from or to a non-member, or from a teammate to itself."""
    member_of(team, by)
    member_of(team, to)
    if by == to and not leads(team, by):
        raise Refused(
            f"{by!r} cannot answer its own request.",
            reason="not_approver",
            remedy=f"Ask another member, for example {LEAD!r}.",
        )


def check_waits(request: Request, team: TeamConfig) -> None:
    """Refuse a call or question of an agent that has ended: nobody waits for the answer.

    Its turn may go on for a moment, such as to the next of several calls.
    """
    agent = member_of(team, request.sender).agent
    ended = agent is not None and agent.phase == "ended"
    is_of_work = is_hand_in(request) or is_review(request)
    if ended and request.kind in ("permission", "question") and not is_of_work:
        raise Refused(
            f"{request.sender!r} has ended and cannot ask.",
            reason="member_ended",
            remedy="Do nothing: this process exits.",
        )


def is_overdue(request: Request, now_ms: int) -> bool:
    """Return whether a pending request is past its deadline and therefore denied."""
    return (
        request.state == "pending"
        and request.deadline_ms is not None
        and request.deadline_ms <= now_ms
    )


def check_answer(
    request: Request, team: TeamConfig, *, by: str, voice: Voice, digest: str | None
) -> None:
    """Refuse an answer that does not count.

    Raises:
        Refused: not_approver, already_answered, expired or wrong_digest, checked in this order.
            Only the member that was asked and the lead may answer, never the asker. If the request
            names an approver, only that approver and people may.
    """
    itself = by == request.sender and (by != request.to or voice == "agent")
    if itself or not (by == request.to or leads(team, by)):
        raise Refused(
            f"{request.sender!r} made request {request.id!r}, so {by!r} cannot answer it.",
            reason="not_approver",
            remedy="A person must answer it." if by == request.to else f"{request.to!r} was asked.",
        )
    if not may_answer(request, voice):
        raise Refused(
            f"Request {request.id!r} from {request.sender!r} can only be answered by "
            f"{_ANSWERERS[request.approver]}.",
            reason="not_approver",
            remedy=f"Show the request: bullpen requests {request.id}",
        )
    if request.state == "expired":
        raise too_late(request)
    if request.state != "pending":
        raise Refused(
            f"Request {request.id!r} was already {request.state} by {request.answered_by!r}.",
            reason="already_answered",
            remedy="Make a new request to ask again.",
        )
    if digest is not None and digest != request.digest:
        raise Refused(
            f"The answer does not match request {request.id!r}.",
            reason="wrong_digest",
            remedy="Show the request again, then answer it.",
        )


def outlived(requests: Mapping[str, Request], now_ms: int) -> list[str]:
    """Return the permissions that nobody needs any more: all but the last that were answered.

    Without this, everything that was ever asked would be read at every look at the team.
    """
    settled = sorted(
        (request.answered_ms or request.created_ms, request.id)
        for request in requests.values()
        if request.kind == "permission" and request.state != "pending"
    )
    return [key for at, key in settled[:-SETTLED_KEPT] if at < now_ms - _SETTLED_KEPT_MS]


_ANSWERERS = {
    None: "the member that was asked",
    "human": "a person",
    "lead": "the lead",
    "policy": "the policy file",
    "rule": "the rule for plans",
    "auto": "nobody (Bullpen approves it)",
}


def may_answer(request: Request, voice: Voice) -> bool:
    """Return whether an answer in this voice counts. A person's always does."""
    match request.approver:
        case None:
            return True
        case "human":
            return voice == "human"
        case "lead":
            return voice in ("human", "agent")
        case "policy" | "rule" | "auto":
            return voice in ("human", "policy")


def reaches_inbox(request: Request, team: TeamConfig) -> bool:
    """Return whether the member that was asked gets a message.

    A model is not told about requests that it may not answer. People see them in the list of
    requests.
    """
    member = team.member(request.to)
    model = member is not None and member.agent is not None
    return request.approver in (None, "lead") or not model


def too_late(request: Request) -> Refused:
    """Return the refusal of an answer after the deadline, or after it was withdrawn."""
    why = (request.answer or {}).get("feedback", NO_ANSWER)
    late = f"Request {request.id!r} is past its deadline and was denied."
    return Refused(
        late if why == NO_ANSWER else f"Request {request.id!r} is no longer open. {why}",
        reason="expired",
        remedy="Make a new request.",
    )


def check_extras(
    request: Request,
    team: TeamConfig,
    *,
    voice: Voice,
    updated_input: Any,
    permission_mode: str | None,
    always: bool,
    choice: str | None = None,
) -> None:
    """Refuse options that this request cannot be answered with, or not by this voice.

    Raises:
        Invalid: the option does not fit this kind of request, or there is no such mode.
        Refused: too_wide for a mode wider than the asker's spawn allows; not_approver for an
            "always" that does not come from a person.
    """
    if updated_input is not None and request.kind != "permission":
        raise Invalid(
            f"Request {request.id!r} is not a tool call, so an answer cannot change its input.",
            remedy="Answer without an input.",
        )
    if permission_mode is not None and request.kind != "plan":
        raise Invalid(
            f"Request {request.id!r} is not a plan, so an answer cannot set a mode.",
            remedy="Answer without a mode.",
        )
    if permission_mode is not None:
        _check_mode(request, team, permission_mode)
    if always and request.kind != "permission":
        raise Invalid(
            f"Request {request.id!r} is not a tool call, so it cannot be allowed always.",
            remedy="Approve it without 'always'.",
        )
    if always and voice != "human":
        raise Refused(
            "Only a person can answer with 'always'.",
            reason="not_approver",
            remedy="Approve only this call.",
        )
    if always and not any(always_rules.granted(request, always_rules.chosen(request, choice))):
        raise Invalid(
            f'No "always" rule fits request {request.id!r}.',
            remedy="Approve only this call, without 'always'.",
        )


def _check_mode(request: Request, team: TeamConfig, wanted: str) -> None:
    mode = next((mode for mode in MODES if mode == wanted), None)
    if mode is None or mode == "plan":
        raise Invalid(
            f"An approved plan cannot lead to mode {wanted!r}.",
            remedy=f"Choose one of: {', '.join(mode for mode in MODES if mode != 'plan')}.",
        )
    member = team.member(request.sender)
    agent = member.agent if member is not None else None
    if agent is not None and wider_mode(mode, mode_after_plan(agent)):
        raise Refused(
            f"{request.sender!r} may have at most mode {mode_after_plan(agent)!r} after its "
            f"plan, and {mode!r} is wider.",
            reason="too_wide",
            remedy="Approve without a mode, or with a narrower one.",
        )


def answered(
    request: Request,
    *,
    approve: bool,
    by: str,
    voice: Voice,
    now_ms: int,
    feedback: str | None = None,
    updated_input: Any = None,
    permission_mode: str | None = None,
    always: bool = False,
    choice: str | None = None,
) -> Request:
    """Return the request with its answer."""
    extras = {
        "feedback": feedback,
        "updatedInput": updated_input,
        "permissionMode": permission_mode,
        "always": always or None,
        "choice": always_rules.chosen(request, choice) if always else None,
    }
    return request.evolve(
        state="approved" if approve else "denied",
        answered_by=by,
        answered_ms=now_ms,
        voice=voice,
        answer={key: value for key, value in extras.items() if value is not None} or None,
    )


def expired(request: Request, *, now_ms: int, why: str = NO_ANSWER) -> Request:
    """Return the request as denied: nobody answered it in time, or it was withdrawn."""
    return request.evolve(state="expired", answered_ms=now_ms, answer={"feedback": why})


def is_usable(request: Request, now_ms: int) -> bool:
    """Return whether an approval is unused and recent enough to be used."""
    return (
        request.state == "approved"
        and request.used_ms is None
        and now_ms - (request.answered_ms or 0) <= YES_HOLDS_MS
    )


def check_redeem(request: Request, *, by: str, digest: str | None, now_ms: int) -> None:
    """Refuse to use a permission for anything but the call it covers.

    Raises:
        Refused: not_approved, wrong_digest, already_used or too_old.
    """
    if request.kind != "permission" or request.sender != by or request.state != "approved":
        raise Refused(
            f"Request {request.id!r} is {request.state}, so {by!r} may not make this call.",
            reason="not_approved",
            remedy="Make a new request.",
        )
    if digest != request.digest:
        raise Refused(
            f"Request {request.id!r} covers a different call.",
            reason="wrong_digest",
            remedy="Make a new request.",
        )
    if request.used_ms is not None:
        raise Refused(
            f"The permission from request {request.id!r} was already used.",
            reason="already_used",
            remedy="An approval covers one call. Make a new request.",
        )
    if not is_usable(request, now_ms):
        raise Refused(
            f"The permission from request {request.id!r} is too old.",
            reason="too_old",
            remedy="Make a new request.",
        )


def denied_before(requests: Iterable[Request], *, digest: str, by: str) -> Request | None:
    """Return the latest answer about exactly this call, if another member denied it."""
    words = [
        request
        for request in requests
        if request.kind == "permission"
        and request.digest == digest
        and request.state in ("approved", "denied")
        and request.voice in ("human", "agent")
    ]
    if not words:
        return None
    last = max(words, key=lambda request: (request.answered_ms or 0, request.id))
    return last if last.state == "denied" and last.sender != by else None


def heard(
    asked: ShutdownRequest, team: TeamConfig, *, sender: str, to: str, now_ms: int
) -> Request | None:
    """Return the request that another program's lead makes in a message, or None.

    A Bullpen agent's request is stored before its message, so its messages make no request.
    """
    member = team.member(sender)
    if member is None or not member.is_lead or member.agent is not None:
        return None
    if asked.sender != sender or not names.can_be_component(asked.request_id):
        return None
    return Request.new(
        id=asked.request_id,
        kind="shutdown",
        sender=sender,
        to=to,
        created_ms=now_ms,
        subject={} if asked.reason is None else {"reason": asked.reason},
    )


def question(request: Request) -> Payload:
    """Return the payload that asks."""
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
    """Return the payload that tells the asker the result of an answered or expired request."""
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
        permission_mode=_granted_mode(request, team) if approved else None,
        plan_digest=request.digest if approved else None,
    )


def _granted_mode(request: Request, team: TeamConfig) -> str:
    """Return the mode that an approved plan gives its author.

    A member that Bullpen does not run takes its mode from the answer: the one asked for, else
    Claude Code's default.
    """
    asked = (request.answer or {}).get("permissionMode")
    member = team.member(request.sender)
    agent = member.agent if member is not None else None
    return (asked or DEFAULT_MODE) if agent is None else mode_given(agent, asked)


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


def is_consent(message: Message, requests: Mapping[str, Request]) -> bool:
    """Return whether a message is the consent to a shutdown that a request records as given."""
    payload = payload_of(message.text)
    if not isinstance(payload, ShutdownApproved):
        return False
    request = requests.get(payload.request_id)
    return (
        request is not None
        and request.kind == "shutdown"
        and request.state == "approved"
        and request.to == request.answered_by == message.sender == payload.sender
    )
