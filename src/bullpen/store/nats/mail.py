"""Mailboxes: what the fold knows of a message, and its text from wherever that is."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.errors import NotFound, Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.message import DeliveryState, Message
from bullpen.store.base import Entry, Mailbox
from bullpen.store.fold import fold
from bullpen.store.mail_states import is_unread
from bullpen.store.nats.log import TeamLog


async def mailbox(log: TeamLog, agent: str, *, after: str | None, history: bool) -> Mailbox:
    """What is in a mailbox, oldest first. Raises NotFound and Unavailable."""
    kept = log.kept
    box, archived = kept.box(agent), kept.archived.get(agent, 0)
    if archived and history:
        return _cut(await _with_archive(log, agent), agent, after)
    if after is not None and archived:
        number = kept.numbers.get(agent, {}).get(after, 0)
        if number <= kept.archived_up_to.get(agent, 0):
            return _cut(await _with_archive(log, agent), agent, after)
    wanted = dict(box)
    if after is not None:
        _known(after in wanted, agent, after)
        keys = list(wanted)
        wanted = {key: wanted[key] for key in keys[keys.index(after) + 1 :]}
    bodies = await _bodies(log, agent, wanted)
    return Mailbox(tuple(_entry(key, bodies[key], state) for key, state in wanted.items()))


def _known(known: bool, agent: str, after: str) -> None:
    if not known:
        raise NotFound(
            f"There is no message {after!r} in the mailbox of {agent!r}.",
            remedy="Read the mailbox without naming a message.",
        )


def _entry(key: str, message: Message, state: DeliveryState) -> Entry:
    if is_unread(state):
        return Entry(key, message, state)
    return Entry(key, message if message.read else message.evolve(read=True), "seen")


def _cut(box: Mailbox, agent: str, after: str | None) -> Mailbox:
    if after is None:
        return box
    ids = [entry.id for entry in box.entries]
    _known(after in ids, agent, after)
    return Mailbox(box.entries[ids.index(after) + 1 :])


async def _with_archive(log: TeamLog, agent: str) -> Mailbox:
    """Everything that was ever in a mailbox: the whole history is read for it."""
    events = await read_events(log, 0, None)
    states = fold(events).mail.get(agent, {})
    bodies: dict[str, Message] = {}
    for event in events:
        for change in event.changes:
            if isinstance(change, Deliver) and change.to == agent:
                bodies.setdefault(change.message.id, change.message)
    return Mailbox(tuple(_entry(key, bodies[key], state) for key, state in states.items()))


async def _bodies(log: TeamLog, agent: str, wanted: Iterable[str]) -> dict[str, Message]:
    """The texts of messages: those that were read before, and the rest from their events."""
    kept = log.kept
    cached = kept.bodies.setdefault(agent, {})
    numbers = dict(kept.numbers.get(agent, {}))
    # Taken out now: while the rest is read, others may archive some of these.
    bodies = {key: cached[key] for key in wanted if key in cached}
    lacking = sorted({numbers[key] for key in wanted if key not in bodies})
    while lacking:
        first = lacking[0]
        # One part of the history holds many: ask for all up to the last that is near.
        near = [number for number in lacking if number < first + 64]
        for event in await read_events(log, first - 1, near[-1] - first + 1):
            for change in event.changes:
                if isinstance(change, Deliver) and change.to == agent:
                    key = change.message.id
                    if numbers.get(key) == event.seq:
                        seen = not is_unread(kept.box(agent).get(key, "seen"))
                        message = change.message.evolve(read=True) if seen else change.message
                        bodies[key] = message
                        if key in kept.numbers.get(agent, {}):
                            cached[key] = message
        lacking = lacking[len(near) :]
    try:
        return {key: bodies[key] for key in wanted}
    except KeyError as error:
        raise Unavailable(
            f"The text of message {error} to {agent!r} is not in the history of team"
            f" {log.address.team!r}.",
            remedy="A replica may have lost messages: run `bullpen server check`.",
        ) from None


async def archived_ids(log: TeamLog, agent: str) -> set[str]:
    """The ids of an agent's archived messages."""
    states = fold(await read_events(log, 0, None)).mail.get(agent, {})
    return {key for key, state in states.items() if state == "archived"}


async def read_events(log: TeamLog, after: int, limit: int | None) -> list[Event]:
    """Events past a number, from the log and its history. Raises Unavailable."""
    lines = await log.lines(max(0, after), limit)
    try:
        return [Event.decode(jsontext.loads_line(line)) for line in lines]
    except ValueError as error:
        raise Unavailable(
            f"An event of team {log.address.team!r} after number {after} is damaged: {error}.",
            remedy="A replica may have lost messages: run `bullpen server check`.",
        ) from None
