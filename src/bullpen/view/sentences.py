"""Payloads, changes and times as sentences for people."""

from __future__ import annotations

from datetime import datetime

from bullpen.protocol import changes, payloads
from bullpen.protocol.changes import Event
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.view.news import asked_for, sender_of

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
            return f"{payload.sender} orders: {payload.action}{_because(payload.reason)}"
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
    said = "; ".join(_change(change) for change in event.changes)
    return f"{said} (done by another program)" if event.observed else said


def _change(change: changes.Change) -> str:
    match change:
        case changes.PutTask(task):
            owner = f", {task.owner}" if task.owner else ""
            return f"task {task.id} is {task.status}{owner}: {task.subject}"
        case changes.DeleteTask(task_id):
            return f"task {task_id} deleted"
        case changes.PutMember(member):
            return f"member {member.name}"
        case changes.RemoveMember(name):
            return f"member {name} removed"
        case changes.PutTeam(fields):
            return f"team: {', '.join(fields)}"
        case changes.Deliver(to, message):
            about = f": {message.summary}" if message.summary else ""
            return f"message from {sender_of(message)} to {to}{about}"
        case changes.PutRequest(request):
            return f"{request.kind} request {request.id} is {request.state}"
        case changes.RemoveRequest(request_id):
            return f"request {request_id} removed, answered long ago"
        case changes.MarkMail(agent, ids, state):
            return f"{len(ids)} of {agent}'s messages {state}"
        case changes.UnknownChange(raw):
            return f"a change that this version does not know: {raw.get('put')}"
