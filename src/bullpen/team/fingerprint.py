"""Digests over all that a store shows of a team, to tell whether two stores show the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.protocol.changes import Event
from bullpen.store.base import Problem, Store, TeamState
from bullpen.store.fold import fold


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A team in a few digests. `problems` are records that are there and cannot be read."""

    events: int
    log: str
    state: str
    mail: dict[str, str]
    messages: int
    problems: tuple[Problem, ...]


def log_digest(events: Iterable[Event]) -> str:
    """A digest over events, whatever order their fields were written in."""
    return _digest(event.encode() for event in events)


async def take(store: Store, team: str, events: Sequence[Event]) -> Fingerprint:
    """The fingerprint of a team whose whole log has just been read."""
    state = await store.read(team)
    folded = fold(events)
    problems = list(state.problems)
    mail: dict[str, str] = {}
    messages = 0
    for agent in sorted({*folded.mail, *folded.members}):
        box = await store.mailbox(team, agent, history=True)
        problems += box.problems
        messages += len(box.entries)
        # By id: where another program writes too, an inbox and the log differ in their order.
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
    """In what a copy differs, in words; None if it does not."""
    if here.events != there.events:
        return f"the source has {here.events} events, the copy {there.events}"
    if here.log != there.log:
        return "the events are not the same"
    if there.problems:
        return f"{there.problems[0].where} cannot be read ({there.problems[0].why})"
    if here.state != there.state:
        return "members, tasks or requests are not the same"
    for agent in sorted({*here.mail, *there.mail}):
        if here.mail.get(agent) != there.mail.get(agent):
            return f"the mail of {agent!r} is not the same"
    return None


async def misordered(store: Store, team: str, events: Sequence[Event]) -> str | None:
    """An agent whose mail does not stand in the order of the log; None if there is none."""
    for agent, states in fold(events).mail.items():
        box = await store.mailbox(team, agent, history=True)
        # Names that another program gave can share a mailbox.
        if [entry.id for entry in box.entries if entry.id in states] != list(states):
            return agent
    return None


def _records(state: TeamState) -> Iterable[Any]:
    # A null of another program means "not there" in the log.
    yield {key: value for key, value in state.team.header.items() if value is not None}
    yield {member.name: member.raw for member in state.team.roster}
    yield {task_id: task.raw for task_id, task in state.tasks.items()}
    yield {request_id: request.raw for request_id, request in state.requests.items()}


def _digest(values: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for value in values:
        found.update(json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return found.hexdigest()
