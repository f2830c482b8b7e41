"""The log of a team as structured lines, without content unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bullpen.doors.telemetry.spans import Trace
from bullpen.protocol import changes
from bullpen.protocol.changes import Event
from bullpen.view.news import news


def log_rows(events: Iterable[Event], trace: Trace, *, content: bool) -> Iterator[dict[str, Any]]:
    """Events as JSON objects with trace and span ids; the trace is told the events too.

    Without `content`, texts name members, tasks and requests, but hold nothing that anybody wrote.
    """
    for event in events:
        before = trace.turn_of(event.actor)
        trace.tell([event], {})
        tasks = [change.task.id for change in event.changes if isinstance(change, changes.PutTask)]
        tasks += [
            change.task_id for change in event.changes if isinstance(change, changes.DeleteTask)
        ]
        told = "; ".join(news(event)) if content else ""
        yield {
            "time": event.time,
            "team": trace.team,
            "agent": event.actor,
            # The others only learnt that they block the first.
            "task": tasks[0] if tasks else None,
            "op": event.op,
            "text": told or _plain(event, tasks),
            "seq": event.seq,
            "trace_id": trace.trace_id or None,
            "span_id": before or trace.turn_of(event.actor),
        }


def _plain(event: Event, tasks: list[str]) -> str:
    """What happened, without anything that members wrote."""
    about = [f"#{task_id}" for task_id in dict.fromkeys(tasks)]
    for change in event.changes:
        match change:
            case changes.PutMember(member):
                about.append(member.name)
            case changes.RemoveMember(name):
                about.append(name)
            case changes.Deliver(to, message):
                about.append(f"{message.sender} to {to}")
            case changes.PutRequest(request):
                about.append(f"{request.kind} of {request.sender} {request.state}")
            case changes.MarkMail(agent, ids, state):
                about.append(f"{len(ids)} of {agent} {state}")
    return f"{event.actor} {event.op} {', '.join(dict.fromkeys(about))}".rstrip()
