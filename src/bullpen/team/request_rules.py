"""Questions that wait for an answer: who may answer, when, and what the asker is told.

Pure. A question is answered at most once; without an answer by its deadline it is a no.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol import names
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
from bullpen.protocol.policy import MODES
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.times import iso
from bullpen.team.lookup import leads, member_of
from bullpen.team.policy_rules import mode_after_plan, wider_mode

YES_HOLDS_MS = 3_600_000
"""How long a yes that nobody used can be: the asker may have to be started again first."""

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


def check_answer(
    request: Request, team: TeamConfig, *, by: str, voice: Voice, digest: str | None
) -> None:
    """Refuse an answer that does not count.

    Raises:
        Refused: not_approver, already_answered, expired or wrong_digest, looked for in this order.
            Who was asked may answer, and the lead; nobody else, and no asker itself. If somebody
            was named who shall answer, only that one and people may.
    """
    itself = by == request.sender and (by != request.to or voice == "agent")
    if itself or not (by == request.to or leads(team, by)):
        raise Refused(
            f"{by!r} cannot answer request {request.id!r}, which {request.sender!r} asked.",
            reason="not_approver",
            remedy="A person has to answer it."
            if by == request.to
            else f"{request.to!r} was asked.",
        )
    if not may_answer(request, voice):
        raise Refused(
            f"Request {request.id!r} of {request.sender!r} is for {_ANSWERERS[request.approver]}"
            " to answer.",
            reason="not_approver",
            remedy=f"See it with: bullpen requests {request.id}",
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


_ANSWERERS = {
    None: "whoever was asked",
    "human": "a person",
    "lead": "the lead",
    "policy": "the policy file",
    "rule": "the rule for plans",
    "auto": "nobody: it is approved by code",
}


def may_answer(request: Request, voice: Voice) -> bool:
    """Whether an answer in this voice counts. A person's always does."""
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
    """Whether whoever was asked is told by a message.

    What a model may not answer is not told to it: people see it in the list of requests.
    """
    member = team.member(request.to)
    model = member is not None and member.agent is not None
    return request.approver in (None, "lead") or not model


def too_late(request: Request) -> Refused:
    """The refusal of an answer after the deadline."""
    return Refused(
        f"Request {request.id!r} is past its deadline, which made it a no.",
        reason="expired",
        remedy="It takes a new request.",
    )


def check_extras(
    request: Request,
    team: TeamConfig,
    *,
    voice: Voice,
    updated_input: Any,
    permission_mode: str | None,
    always: bool,
) -> None:
    """Refuse what this request cannot be answered with, or not by this voice.

    Raises:
        Invalid: it does not belong to this kind of request, or there is no such mode.
        Refused: too_wide for a mode beyond what the asker was spawned with; not_approver for an
            "always" that is not a person's.
    """
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
    if permission_mode is not None:
        _check_mode(request, team, permission_mode)
    if always and request.kind != "permission":
        raise Invalid(
            f"Request {request.id!r} is no tool call that could always be allowed.",
            remedy="Approve it without 'always'.",
        )
    if always and voice != "human":
        raise Refused(
            "Only a person can allow something for good.",
            reason="not_approver",
            remedy="Approve this one call.",
        )
    if always and not any(granted(request)):
        raise Invalid(
            f"There is no rule that would cover request {request.id!r} and nothing else.",
            remedy="Approve this one call, without 'always'.",
        )


def _check_mode(request: Request, team: TeamConfig, wanted: str) -> None:
    mode = next((mode for mode in MODES if mode == wanted), None)
    if mode is None or mode == "plan":
        raise Invalid(
            f"No plan leads to the mode {wanted!r}.",
            remedy=f"Choose one of these: {', '.join(mode for mode in MODES if mode != 'plan')}.",
        )
    member = team.member(request.sender)
    agent = member.agent if member is not None else None
    if agent is not None and wider_mode(mode, mode_after_plan(agent)):
        raise Refused(
            f"{request.sender!r} was spawned with at most the mode {mode_after_plan(agent)!r}"
            f" after its plan, which {mode!r} is wider than.",
            reason="too_wide",
            remedy="Approve it without a mode, or with a narrower one.",
        )


def granted(request: Request) -> tuple[list[str], list[str]]:
    """The rules and the directories that an "always" to this request allows.

    They are what the asker suggested, in the form of Claude Code.
    """
    rules: list[str] = []
    directories: list[str] = []
    for row in request.subject.get("suggestions") or ():
        if not isinstance(row, dict):
            continue
        if row.get("type") == "addRules" and row.get("behavior") == "allow":
            rules += [_rule(each) for each in row.get("rules") or () if isinstance(each, dict)]
        elif row.get("type") == "addDirectories":
            directories += [str(each) for each in row.get("directories") or ()]
    return rules, directories


def _rule(row: dict[str, Any]) -> str:
    content = row.get("ruleContent")
    return f"{row.get('toolName')}({content})" if content else str(row.get("toolName"))


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
) -> Request:
    """The request with its answer."""
    extras = {
        "feedback": feedback,
        "updatedInput": updated_input,
        "permissionMode": permission_mode,
        "always": always or None,
    }
    return request.evolve(
        state="approved" if approve else "denied",
        answered_by=by,
        answered_ms=now_ms,
        voice=voice,
        answer={key: value for key, value in extras.items() if value is not None} or None,
    )


def expired(request: Request, *, now_ms: int, why: str = NO_ANSWER) -> Request:
    """The request that nobody answered in time, or that was taken back: a no."""
    return request.evolve(state="expired", answered_ms=now_ms, answer={"feedback": why})


def is_usable(request: Request, now_ms: int) -> bool:
    """Whether a yes can still be used: it was not yet, and is not from long ago."""
    return (
        request.state == "approved"
        and request.used_ms is None
        and now_ms - (request.answered_ms or 0) <= YES_HOLDS_MS
    )


def check_redeem(request: Request, *, by: str, digest: str | None, now_ms: int) -> None:
    """Refuse to act on a permission that does not cover exactly this.

    Raises:
        Refused: not_approved, wrong_digest, already_used or too_old.
    """
    if request.kind != "permission" or request.sender != by or request.state != "approved":
        raise Refused(
            f"Request {request.id!r} is {request.state} and permits {by!r} nothing.",
            reason="not_approved",
            remedy="It takes a new request.",
        )
    if digest != request.digest:
        raise Refused(
            f"Request {request.id!r} permits another call than this one.",
            reason="wrong_digest",
            remedy="It takes a new request.",
        )
    if request.used_ms is not None:
        raise Refused(
            f"The permission of request {request.id!r} was used already.",
            reason="already_used",
            remedy="A yes is good for one call; it takes a new request.",
        )
    if not is_usable(request, now_ms):
        raise Refused(
            f"The permission of request {request.id!r} is from too long ago.",
            reason="too_old",
            remedy="It takes a new request.",
        )


def denied_before(requests: Iterable[Request], *, digest: str, by: str) -> Request | None:
    """The latest word on exactly this call if it is another member's no: not to be got round."""
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
    """The request that a message of another program's lead asks; None if it asks nothing.

    What an agent of ours asks is stored before its message is, so its messages ask nothing more.
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
