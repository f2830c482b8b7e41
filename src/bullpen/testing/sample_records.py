"""Small records and changes for the contract suites, and a comparison of log and state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bullpen.protocol.changes import Change
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import Committed, Decide, Store, View
from bullpen.store.events.fold import fold


def member(name: str, **fields: Any) -> Member:
    """Return a roster entry; `fields` are JSON keys, known or not."""
    return Member.parse({"agentId": f"{name}@alpha", "name": name, **fields})


def config(name: str = "alpha", **fields: Any) -> TeamConfig:
    """Return a team of a lead and two teammates; `fields` are JSON keys, known or not."""
    rows = [member(each).raw for each in (LEAD, "ann", "bob")]
    return TeamConfig.parse({"name": name, "createdAt": 1, **fields, "members": rows})


def task(task_id: str, **fields: Any) -> Task:
    """Return a pending task; `fields` are JSON keys, known or not."""
    raw = {"id": task_id, "subject": f"Task {task_id}", "description": "", "status": "pending"}
    return Task.parse({**raw, "blocks": [], "blockedBy": [], **fields})


def message(
    msg_id: str | None, *, sender: str = LEAD, text: str = "Hello", **fields: Any
) -> Message:
    """Return an unread message; `fields` are JSON keys, known or not. It may lack an id."""
    raw = {"from": sender, "text": text, "timestamp": "2026-01-01T00:00:00.000Z", "read": False}
    return Message.parse({**raw, **({"msg_id": msg_id} if msg_id else {}), **fields})


def request(request_id: str, **fields: Any) -> Request:
    """Return a pending shutdown request; `fields` are JSON keys, known or not."""
    raw = {"id": request_id, "kind": "shutdown", "from": LEAD, "to": "ann", "createdMs": 1}
    return Request.parse({**raw, "state": "pending", "subject": {}, **fields})


def note(name: str, text: str = "Hello\n", *, version: int = 1, **fields: Any) -> Note:
    """Return a version of a note; `fields` are JSON keys, known or not."""
    raw = {"name": name, "text": text, "version": version, "author": "ann", "timeMs": 1}
    return Note.parse({**raw, **fields})


def heartbeat(agent: str, *, beat_ms: int = 1, **fields: Any) -> Presence:
    """Return a heartbeat; `fields` are JSON keys, known or not."""
    return Presence.parse(
        {"agent": agent, "state": "idle", "sinceMs": 1, "beatMs": beat_ms, **fields}
    )


def always(*changes: Change) -> Decide:
    """Return a decision for these changes, whatever the team is like."""

    def decide(view: View) -> Sequence[Change]:
        return changes

    return decide


async def put(store: Store, *changes: Change, team: str = "alpha", op: str = "test") -> Committed:
    """Commit some changes."""
    return await store.commit(team, always(*changes), actor=LEAD, op=op)


async def next_task_id(store: Store, team: str = "alpha") -> int:
    """Return the id that the next new task would get."""
    found: list[int] = []

    def look(view: View) -> Sequence[Change]:
        found.append(view.next_task_id)
        return ()

    await store.commit(team, look, actor=LEAD, op="test")
    return found[-1]


async def assert_replay_is_live(store: Store, team: str = "alpha") -> None:
    """Assert that replaying a team's log gives the team that the store shows, mail included."""
    live = await store.read(team)
    replayed = fold(await store.events(team))
    assert replayed.seq == live.seq
    assert replayed.team == live.team.header
    assert replayed.members == {row.name: row.raw for row in live.team.roster}
    assert list(replayed.members) == [row.name for row in live.team.roster]
    assert replayed.tasks == {key: each.raw for key, each in live.tasks.items()}
    assert replayed.notes == {key: each.raw for key, each in live.notes.items()}
    assert replayed.requests == {key: each.raw for key, each in live.requests.items()}
    for agent in {*replayed.mail, *replayed.members}:
        box = await store.mailbox(team, agent, history=True)
        states = replayed.mail.get(agent, {})
        hot = await store.mailbox(team, agent)
        assert [(entry.id, entry.state) for entry in hot.entries] == [
            item for item in states.items() if item[1] != "archived"
        ]
        assert {entry.id for entry in box.entries} == set(states)
