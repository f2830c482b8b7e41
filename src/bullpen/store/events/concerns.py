"""What a change is about: its record, and the agent that it concerns. Pure."""

from __future__ import annotations

from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
    UnknownChange,
)

_NO_AGENT = ""
"""Stands for changes that concern no agent and that nobody waits for."""


def concern_of(change: Change) -> str | None:
    """Return the agent that a change concerns; None if it concerns everybody.

    A watch for one agent wakes only for what concerns it.
    """
    match change:
        case Deliver(to=agent) | MarkMail(agent=agent):
            return agent
        case PutMember() | RemoveMember() | PutTeam() | RemoveRequest() | PutNote():
            return _NO_AGENT
        case _:
            return None


def record_of(change: Change) -> tuple[str, str]:
    """Return the kind and key of the record that a change is about."""
    match change:
        case PutTask(task):
            return ("task", task.id)
        case DeleteTask(task_id):
            return ("task", task_id)
        case PutMember(member):
            return ("member", member.name)
        case RemoveMember(name):
            return ("member", name)
        case PutRequest(request):
            return ("request", request.id)
        case RemoveRequest(request_id):
            return ("request", request_id)
        case PutNote(note):
            return ("note", note.name)
        case PutTeam():
            return ("team", "")
        case Deliver(to, message):
            return ("message", f"{to}/{message.id}")
        case MarkMail(agent, ids):
            return ("mail", f"{agent}/{ids}")
        case UnknownChange():
            return ("unknown", "")
