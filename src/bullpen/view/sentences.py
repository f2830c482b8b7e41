"""Payloads, changes and times as sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bullpen.protocol import changes, payloads
from bullpen.protocol.changes import Event
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.protocol.team import Member
from bullpen.team.requests.handles import short_id
from bullpen.view.news import ENDS, actor_of, asked_for, sender_of

_MEMBER = {
    "team.create": "leads the team",
    "member.join": "joined",
    "agent.spawn": "is being started",
    "agent.resume": "is being started again",
    "agent.placed": "has a process",
    "agent.ready": "is ready",
    "agent.turn": "began a turn",
    "agent.idle": "ended its turn",
    "agent.spend": "used its model",
    "agent.ending": "is being stopped",
    "agent.end": "ended",
    "agent.withdraw": "was not started",
    "agent.take_back": "is not started after all",
    "agent.budget": "has another budget",
    "plan.enter": "plans first",
    "plan.settle": "has the answer to its plan",
}
_TEAM = {
    "run.begin": "the team is run",
    "run.end": "the run has ended",
    "lead.take": "the lead took its place",
    "lead.drop": "the lead left its place",
    "merge.configure": "merge settings changed",
    "forge.configure": "forge settings changed",
    "team.finish": "the team has finished",
    "team.unfinish": "the team has a new goal",
    "team.quiet": "quiet hours began or ended",
}
"""What became of a member, or of a team, by the name of the change in the log."""

_MAIL: Mapping[DeliveryState, str] = {
    "stored": "has",
    "injected": "is given",
    "seen": "has seen",
    "consumed": "took",
    "archived": "archived",
}

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def age(since_ms: float | None, now_ms: int) -> str:
    """How long ago something was, in its largest unit: `3m`. Empty if it is not known."""
    if since_ms is None:
        return ""
    seconds = max(0, int((now_ms - since_ms) / 1000))
    size, unit = next((row for row in _UNITS if seconds >= row[0]), _UNITS[-1])
    return f"{seconds // size}{unit}"


def sent_ms(message: Message) -> float | None:
    """When a message was sent, if its time can be read."""
    try:
        return datetime.fromisoformat(message.timestamp).timestamp() * 1000
    except (ValueError, OverflowError, OSError):
        return None


def body(message: Message) -> str:
    """What a message says: its text, or its payload in words."""
    payload = payloads.payload_of(message.text)
    return _payload(payload, message) if payload is not None else message.text


def _payload(payload: payloads.Payload, message: Message) -> str:
    match payload:
        case payloads.TaskAssignment():
            more = f"\n{payload.description}" if payload.description else ""
            return (
                f"Task {payload.task_id} was assigned to you by {payload.assigned_by}: "
                f"{payload.subject}{more}"
            )
        case payloads.TaskCompleted():
            return f"{payload.sender} completed task {payload.task_id}: {payload.task_subject}"
        case payloads.IdleNotification():
            return _idle(payload)
        case payloads.ShutdownRequest():
            return f"{payload.sender} asks you to shut down{_because(payload.reason)}"
        case payloads.ShutdownApproved():
            return f"{payload.sender} shuts down."
        case payloads.ShutdownRejected():
            return f"{payload.sender} keeps working{_because(payload.reason)}"
        case payloads.ModeSetRequest():
            return f"{payload.sender} sets your permission mode to {payload.mode}."
        case payloads.Control():
            return f"Told to {payload.action}{_because(payload.reason)}"
        case payloads.TeammateTerminated():
            return payload.message
        case payloads.PlanApprovalRequest():
            return f"{payload.sender} asks you to approve this plan:\n{payload.plan_content}"
        case payloads.PlanApprovalResponse():
            verdict = "approved" if payload.approved else "rejected"
            return f"{message.sender} {verdict} your plan{_because(payload.feedback)}"
        case payloads.PermissionRequest():
            about = f": {payload.description}" if payload.description else "."
            return f"{payload.agent_id} asks to use {payload.tool_name}{about}"
        case payloads.PermissionResponse():
            verdict = "allowed" if payload.approved else "denied"
            return f"{message.sender} {verdict} your tool call{_because(payload.why_not)}"
        case _:
            return message.text


def _idle(payload: payloads.IdleNotification) -> str:
    said = f"{payload.sender} is idle"
    if payload.completed_task_id:
        status = payload.completed_status or "completed"
        said += f", task {payload.completed_task_id} {status}"
    said += _because(payload.failure_reason or payload.summary)
    return f"{said}\n{payload.result}" if payload.result else said


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else "."


def waits(request: Request) -> str:
    """Who waits for whom, and for what."""
    return f"{request.sender} waits for {_answerer(request)}: {asked_for(request)}"


def is_for_people(request: Request) -> bool:
    """Whether a person has to answer, because nobody else will."""
    asks_lead = request.approver is None and request.to == LEAD and request.kind != "shutdown"
    return request.approver == "human" or asks_lead


def _answerer(request: Request) -> str:
    if is_for_people(request):
        return "you"
    return {"lead": "the lead", None: request.to}.get(request.approver, "a rule")


def happened(event: Event) -> str:
    """What an event did, in words."""
    lines = [said for change in event.changes if (said := _change(change, event))]
    said = "; ".join(lines) or _TEAM.get(event.op) or event.op.replace(".", " ")
    return f"{said} (done by another program)" if event.observed else said


def _change(change: changes.Change, event: Event) -> str:
    """A change in words; none for what another change of its event says."""
    match change:
        case changes.PutTask(task):
            owner = f", {task.owner}" if task.owner else ""
            return f"task {task.id} is {task.status.replace('_', ' ')}{owner}: {task.subject}"
        case changes.DeleteTask(task_id):
            return f"task {task_id} deleted"
        case changes.PutMember(member):
            return _member(member, event)
        case changes.RemoveMember(name):
            return f"member {name} removed"
        case changes.PutTeam(fields):
            return _team(fields, event)
        case changes.Deliver(to, message):
            return _message(to, message, event)
        case changes.PutRequest(request):
            return _request(request)
        case changes.RemoveRequest(request_id):
            return f"request {short_id(request_id)} removed, answered long ago"
        case changes.PutNote(note):
            verb = "deleted" if note.is_deleted else "written"
            return f"note {note.name} {verb} by {note.author}, version {note.version}"
        case changes.MarkMail(agent, ids, state):
            many = "1 message" if len(ids) == 1 else f"{len(ids)} messages"
            return f"{agent} {_MAIL[state]} {many}"
        case changes.UnknownChange(raw):
            return f"a change that this version does not know: {raw.get('put')}"


def _member(member: Member, event: Event) -> str:
    name, agent = member.name, member.agent
    if agent is not None and agent.phase == "ended" and event.op == "agent.end":
        why = f": {agent.cause}" if agent.cause else ""
        return f"{name} {ENDS.get(agent.end or '', 'ended')}{why}"
    if event.op == "agent.mode":
        return f"{name} is in mode {member.mode}"
    if event.op.startswith(("request.", "task.", "merge.")):
        # The request or the task says it.
        return ""
    return f"{name} {_MEMBER.get(event.op, 'changed')}"


def _team(fields: Mapping[str, Any], event: Event) -> str:
    if event.op == "team.create":
        return "team created"
    if event.op in ("team.limits", "agent.budget"):
        return "limits changed"
    # What Bullpen keeps there for itself is about something else that changed.
    return f"team: {', '.join(fields)}" if set(fields) - {"bullpen"} else ""


def _message(to: str, message: Message, event: Event) -> str:
    if payloads.payload_of(message.text) is not None and len(event.changes) > 1:
        # A notice of what else was changed.
        return ""
    about = f": {message.summary}" if message.summary else ""
    # An answer has no voice of its own: whoever answered sent it.
    answers = event.op == "request.answer" and message.sender == event.actor
    sender = actor_of(event) if answers else sender_of(message)
    return f"message from {sender} to {to}{about}"


def _request(request: Request) -> str:
    handle = short_id(request.id)
    if request.state == "pending":
        return f"{waits(request)} ({handle})"
    if request.used_ms is not None and request.state == "approved":
        return f"{request.sender} used the answer to request {handle}"
    word = "rejected" if (request.kind, request.state) == ("plan", "denied") else request.state
    return f"{request.kind} request {handle} of {request.sender} {word}"
