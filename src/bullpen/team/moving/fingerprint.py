"""Digests of everything a store shows of a team, to check that two stores show the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.protocol.changes import Event
from bullpen.store.contract import Problem, Store, TeamState
from bullpen.store.events.fold import fold


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A team as a few digests. `problems` are records that exist but cannot be read."""

    events: int
    log: str
    state: str
    mail: dict[str, str]
    messages: int
    problems: tuple[Problem, ...]


def log_digest(events: Iterable[Event]) -> str:
    """Return a digest of events that does not depend on the order of their fields."""
    return _digest(event.encode() for event in events)


async def take(store: Store, team: str, events: Sequence[Event]) -> Fingerprint:
    """Return the fingerprint of a team whose whole log has just been read."""
    state = await store.read(team)
    folded = fold(events)
    problems = list(state.problems)
    mail: dict[str, str] = {}
    messages = 0
    for agent in sorted({*folded.mail, *folded.members}):
        box = await store.mailbox(team, agent, history=True)
        problems += box.problems
        messages += len(box.entries)
        # Sorted by id, because if another program also writes, an inbox and the log differ in
        # order.
        entries = sorted(box.entries, key=lambda entry: entry.id)
        mail[agent] = _digest([entry.id, entry.state, entry.message.raw] for entry in entries)
    return Fingerprint(
        events=len(events),
        log=log_digest(events),
        state=_digest(_records(state)),
        mail=mail,
        messages=messages,
        problems=tuple(problems),
    )


def difference(here: Fingerprint, there: Fingerprint) -> str | None:
    """Return a text that says how a copy differs, or None if it is equal."""
    if here.events != there.events:
        return f"the source has {here.events} events, the copy has {there.events}"
    if here.log != there.log:
        return "the events differ"
    if there.problems:
        return f"{there.problems[0].where} cannot be read ({there.problems[0].why})"
    if here.state != there.state:
        return "members, tasks, requests or notes differ"
    for agent in sorted({*here.mail, *there.mail}):
        if here.mail.get(agent) != there.mail.get(agent):
            return f"the mail of {agent!r} differs"
    return None


async def misordered(store: Store, team: str, events: Sequence[Event]) -> str | None:
    """Return an agent whose mail is not in the order of the log, or None."""
    for agent, states in fold(events).mail.items():
        box = await store.mailbox(team, agent, history=True)
        # Names given by another program can share a mailbox.
        if [entry.id for entry in box.entries if entry.id in states] != list(states):
            return agent
    return None


def _records(state: TeamState) -> Iterable[Any]:
    # In the log, a null written by another program means that the field is missing.
    yield {key: value for key, value in state.team.header.items() if value is not None}
    yield {member.name: member.raw for member in state.team.roster}
    yield {task_id: task.raw for task_id, task in state.tasks.items()}
    yield {request_id: request.raw for request_id, request in state.requests.items()}
    yield {name: note.raw for name, note in state.notes.items()}


def _digest(values: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for value in values:
        found.update(json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return found.hexdigest()
