"""Every change and event of the log comes back as it was; damage is told, never guessed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bullpen.protocol import json_text
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
    UnknownChange,
    decode,
    encode,
)
from bullpen.protocol.message import Message
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from support.rows import each_row

TASK = Task.parse({"x": 1, "id": "1", "subject": "cut \ud83d", "description": "d"})
MESSAGE = Message.parse({"from": "alice", "text": "t", "msg_id": "m", "read": False, "x": [None]})
REQUEST = Request.new(
    id="r", kind="plan", sender="alice", to="team-lead", created_ms=1, subject={"plan": "# P"}
)

CHANGES: list[Change] = [
    PutTask(TASK),
    DeleteTask("1"),
    PutMember(Member.parse({"color": "blue", "name": "alice", "x": {}})),
    RemoveMember("alice"),
    PutTeam({"description": None, "createdAt": 1}),
    Deliver("bob", MESSAGE),
    PutRequest(REQUEST),
    RemoveRequest("r"),
    MarkMail("bob", ("m", "sha-1"), "seen"),
    PutNote(Note.new(name="plan", version=1, author="alice", time_ms=1, text="# \ud83d")),
    UnknownChange({"put": "sprint", "x": [None], "sprint": {"id": "s1"}}),
]


def event(*changes: Change, observed: bool = False) -> Event:
    return Event(7, "2026-11-14T22:47:12.537Z", "alice", "task.add", changes, observed)


@each_row("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_comes_back_as_it_was(change: Change) -> None:
    line = json_text.dumps_line(encode(change))
    again = decode(json_text.loads_line(line))
    assert type(again) is type(change)
    assert again == change
    assert json_text.dumps_line(encode(again)) == line


def test_every_kind_of_change_has_an_example() -> None:
    assert {type(change) for change in CHANGES} == set(Change.__args__)


@pytest.mark.parametrize("observed", [False, True])
def test_an_event_comes_back_as_it_was(observed: bool) -> None:
    written = event(*CHANGES, observed=observed)
    again = Event.decode(json_text.loads_line(json_text.dumps_line(written.encode())))
    assert again == written
    assert again.observed is observed
    assert ("observed" in written.encode()) is observed


def test_a_delivered_message_can_be_found_by_its_id_without_reading_it() -> None:
    nameless = Message.parse({"from": "alice", "text": "t"})
    assert encode(Deliver("bob", nameless))["id"] == nameless.id
    assert encode(Deliver("bob", MESSAGE))["id"] == "m"


@each_row(
    "raw",
    [
        {},
        {"put": None},
        {"put": ["task"]},
        {"put": "task"},
        {"put": "task", "task": None},
        {"put": "task", "task": {"id": "1"}},
        {"put": "task_deleted", "id": 1},
        {"put": "member", "member": []},
        {"put": "member_removed"},
        {"put": "team", "fields": []},
        {"put": "message", "to": 1, "message": {"from": "a", "text": "t"}},
        {"put": "message", "to": "a", "message": {"text": "t"}},
        {"put": "request", "request": {"id": "r"}},
        {"put": "mail_state", "agent": "a", "ids": "abc", "state": "seen"},
        {"put": "mail_state", "agent": "a", "ids": [], "state": "read"},
        [],
        None,
        "task",
    ],
)
def test_what_is_no_change_is_a_value_error(raw: Any) -> None:
    with pytest.raises(ValueError):
        decode(raw)
    with pytest.raises(ValueError):
        Event.decode({**event().encode(), "changes": [raw]})


@each_row("field", [f.name for f in dataclasses.fields(Event) if f.name != "observed"])
@each_row("value", [None, {}, "missing"])
def test_what_is_no_event_is_a_value_error(field: str, value: Any) -> None:
    raw = event(*CHANGES).encode()
    raw[field] = value
    if value == "missing":
        del raw[field]
    with pytest.raises(ValueError):
        Event.decode(raw)


@pytest.mark.parametrize("raw", [None, [], "event", 7])
def test_only_an_object_is_an_event(raw: Any) -> None:
    with pytest.raises(ValueError):
        Event.decode(raw)
