"""What happened in a team, a line for each happening worth telling. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bullpen.agents.frame import harmless
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    PutMember,
    PutTask,
    PutTeam,
)
from bullpen.protocol.payloads import (
    Control,
    IdleNotification,
    ShutdownRequest,
    TaskAssignment,
    payload_of,
)
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task

_LENGTH_MAX = 160

_ENDS = {
    "stopped": "was stopped",
    "suspended": "was stopped with the team",
    "finished": "has finished",
    "failed": "failed",
    "lost": "was lost",
}


def news(event: Event) -> list[str]:
    """The happenings of one event, in order."""
    found: list[str] = []
    for change in event.changes:
        found += (_one_line(line) for line in _told(event, change))
    return found


def _told(event: Event, change: Change) -> Iterator[str]:
    match change:
        case PutTask(task):
            yield from _task(event, task)
        case DeleteTask(task_id):
            yield f"{event.actor} deleted task #{task_id}"
        case PutMember(member):
            yield from _member(event, member)
        case PutTeam() if event.op == "team.finish":
            yield f"{event.actor} has finished"
        case Deliver(to, message) if to != message.sender:
            yield from _mail(message.sender, to, message.text, message.summary)
        case _:
            return


def _task(event: Event, task: Task) -> Iterator[str]:
    named = f"task #{task.id} {task.subject}"
    match event.op:
        case "task.add" if not _was_there(event, task):
            yield f"{event.actor} added {named}"
        case "task.claim":
            yield f"{event.actor} took {named}"
        case "task.done":
            yield f"{event.actor} completed {named}"
        case "task.release" | "task.expire":
            yield f"{named} is free again"
        case _ if event.op.startswith("agent."):
            yield f"{named} is free again"


def _was_there(event: Event, task: Task) -> bool:
    """Whether a task only learnt whom it blocks: what is new comes first, with higher ids."""
    first = next(change.task.id for change in event.changes if isinstance(change, PutTask))
    return task.id.isdecimal() and first.isdecimal() and int(task.id) < int(first)


def _member(event: Event, member: Member) -> Iterator[str]:
    agent = member.agent
    if agent is None:
        return
    match event.op:
        case "agent.ready":
            spec = agent.asked
            again = " again" if agent.launch > 1 else ""
            yield f"{member.name} is ready{again} ({spec.driver}, {spec.backend})"
        case _ if member.is_lead and agent.end == "finished":
            # That the team has finished was told.
            return
        case _ if agent.phase == "ended":
            why = f": {agent.cause}" if agent.cause else ""
            yield f"{member.name} {_ENDS.get(agent.end or '', 'has ended')}{why}"


def _mail(sender: str, to: str, text: str, summary: str | None) -> Iterator[str]:
    payload = payload_of(text)
    match payload:
        case None:
            yield f"{sender} to {to}: {summary or text}"
        case IdleNotification(failure_reason=str() as why):
            yield f"{sender} failed a turn: {why}"
        case IdleNotification(result=str() as result):
            yield f"{sender} reports: {result}"
        case ShutdownRequest():
            yield f"{sender} asks {to} to end"
        case Control():
            yield f"{sender} orders {to} to {payload.action}"
        case TaskAssignment():
            yield f"{sender} gave task #{payload.task_id} to {to}"
        case _:
            return


def _one_line(text: str) -> str:
    flat = harmless(" ".join(text.split()))
    return flat if len(flat) <= _LENGTH_MAX else f"{flat[: _LENGTH_MAX - 1]}…"
