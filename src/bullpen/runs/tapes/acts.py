"""What a person did in a run, as the log of the team tells it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from bullpen.agents.tapes.format import PersonAct
from bullpen.protocol import changes
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import ms_of
from bullpen.protocol.payloads import Control, payload_of
from bullpen.protocol.request import Request

SEND, ANSWER, INTERRUPT, FINISH = "send", "answer", "interrupt", "finish"
_SENT = ("message", "message.broadcast")
_EXTRAS = ("feedback", "updatedInput", "permissionMode", "always", "choice")


def acts_in(events: Iterable[Event], *, begun_ms: int) -> list[PersonAct]:
    """What a person did, in order."""
    found: list[PersonAct] = []
    for event in events:
        at = max((ms_of(event.time) or begun_ms) - begun_ms, 0)
        for change in event.changes:
            found += _acts(event, change, at)
    return found


def ready_in(events: Iterable[Event], *, begun_ms: int) -> list[tuple[str, int]]:
    """Which agents were ready, and when, in order: messages to them are refused before."""
    return [
        (event.actor, max((ms_of(event.time) or begun_ms) - begun_ms, 0))
        for event in events
        if event.op == "agent.ready"
    ]


def _acts(event: Event, change: changes.Change, at: int) -> Iterator[PersonAct]:
    match change:
        case changes.Deliver(to, message) if event.op in _SENT and message.is_of_a_person:
            payload = payload_of(message.text)
            if isinstance(payload, Control):
                if payload.action == "cancel":
                    yield PersonAct(INTERRUPT, at, to=to)
            elif payload is None:
                yield PersonAct(SEND, at, to=to, text=message.text)
        case changes.PutRequest(request) if (
            event.op == "request.answer" and request.voice == "human"
        ):
            answer = request.answer or {}
            yield PersonAct(
                ANSWER,
                at,
                to=request.sender,
                about=request.kind,
                asked=asked_words(request),
                approve=request.state == "approved",
                answer={name: answer[name] for name in _EXTRAS if name in answer},
            )
        case changes.PutTeam({"bullpen": {"finished": {"voice": "human"} as finished}}) if (
            event.op == "team.finish"
        ):
            yield PersonAct(FINISH, at, text=str(finished.get("summary", "")))


def asked_words(request: Request) -> str:
    """What a request asks, as it is compared."""
    subject = request.subject
    known = ("toolName", "input", "plan", "questions", "reason")
    told = {name: subject[name] for name in known if name in subject}
    return json.dumps(told, sort_keys=True, ensure_ascii=False)
