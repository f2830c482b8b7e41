"""The log of a team as structured lines: who did what to which task, and no content unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bullpen.agents.news import news
from bullpen.protocol.changes import (
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutRequest,
    PutTask,
    RemoveMember,
)
from bullpen.telemetry.spans import Trace


def log_rows(events: Iterable[Event], trace: Trace, *, content: bool) -> Iterator[dict[str, Any]]:
    """Events as JSON objects with the ids that lines are found by; the trace goes on with them.

    Without `content` a text names members, tasks and requests, and nothing that anybody wrote.
    """
    for event in events:
        before = trace.turn_of(event.actor)
        trace.tell([event], {})
        tasks = [change.task.id for change in event.changes if isinstance(change, PutTask)]
        tasks += [change.task_id for change in event.changes if isinstance(change, DeleteTask)]
        told = "; ".join(news(event)) if content else ""
        yield {
            "time": event.time,
            "team": trace.team,
            "agent": event.actor,
            # Those after the first only learnt whom they block.
            "task": tasks[0] if tasks else None,
            "op": event.op,
            "text": told or _plain(event, tasks),
            "seq": event.seq,
            "trace_id": trace.trace_id or None,
            "span_id": before or trace.turn_of(event.actor),
        }


def _plain(event: Event, tasks: list[str]) -> str:
    """What happened, without anybody's words."""
    about = [f"#{task_id}" for task_id in dict.fromkeys(tasks)]
    for change in event.changes:
        match change:
            case PutMember(member):
                about.append(member.name)
            case RemoveMember(name):
                about.append(name)
            case Deliver(to, message):
                about.append(f"{message.sender} to {to}")
            case PutRequest(request):
                about.append(f"{request.kind} of {request.sender} {request.state}")
            case MarkMail(agent, ids, state):
                about.append(f"{len(ids)} of {agent} {state}")
            case _:
                pass
    return f"{event.actor} {event.op} {', '.join(dict.fromkeys(about))}".rstrip()
