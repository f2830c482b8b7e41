"""Mailboxes: what the replay knows of a message, and its text from wherever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.message import DeliveryState, Message
from bullpen.store.contract import Entry, Mailbox
from bullpen.store.events.fold import fold
from bullpen.store.mail_states import Box, is_unread
from bullpen.store.nats.log.log import TeamLog
from bullpen.store.record_checks import no_message


async def mailbox(log: TeamLog, agent: str, *, after: str | None, history: bool) -> Mailbox:
    """Return a mailbox, oldest message first. Raises NotFound and Unavailable."""
    kept = log.kept
    is_old = False
    if after is not None:
        number = kept.numbers.get(agent, {}).get(after, 0)
        is_old = number <= kept.archived_up_to.get(agent, 0)
    if kept.archived.get(agent, 0) and (history or is_old):
        states, bodies = await _with_archive(log, agent)
        wanted = _after(states, agent, after)
    else:
        wanted = _after(kept.box(agent), agent, after)
        bodies = await _bodies(log, agent, wanted)
    return Mailbox(tuple(_entry(key, bodies[key], state) for key, state in wanted.items()))


def _entry(key: str, message: Message, state: DeliveryState) -> Entry:
    if is_unread(state):
        return Entry(key, message, state)
    return Entry(key, message if message.read else message.evolve(read=True), "seen")


def _after(states: Box, agent: str, after: str | None) -> dict[str, DeliveryState]:
    if after is None:
        return dict(states)
    if after not in states:
        raise no_message(agent, after)
    keys = list(states)
    return {key: states[key] for key in keys[keys.index(after) + 1 :]}


async def _with_archive(log: TeamLog, agent: str) -> tuple[Box, dict[str, Message]]:
    """Return everything that was ever in a mailbox. Reads the whole history."""
    events = await read_events(log, 0, None)
    bodies: dict[str, Message] = {}
    for _, message in _delivered(events, agent):
        bodies.setdefault(message.id, message)
    return fold(events).mail.get(agent, {}), bodies


def _delivered(events: Iterable[Event], agent: str) -> Iterator[tuple[int, Message]]:
    """Return an agent's messages, each with the number of the event that brought it."""
    for event in events:
        for change in event.changes:
            if isinstance(change, Deliver) and change.to == agent:
                yield event.seq, change.message


async def _bodies(log: TeamLog, agent: str, wanted: Iterable[str]) -> dict[str, Message]:
    """Return the texts of messages: from the cache, and the rest from their events."""
    kept = log.kept
    cached = kept.bodies.setdefault(agent, {})
    numbers = dict(kept.numbers.get(agent, {}))
    # Taken out now: while the rest is read, others may archive some of these.
    bodies = {key: cached[key] for key in wanted if key in cached}
    lacking = sorted({numbers[key] for key in wanted if key not in bodies})
    while lacking:
        first = lacking[0]
        # One history block has many: ask for all up to the last that is near.
        near = [number for number in lacking if number < first + 64]
        events = await read_events(log, first - 1, near[-1] - first + 1)
        for number, message in _delivered(events, agent):
            key = message.id
            if numbers.get(key) == number:
                seen = not is_unread(kept.box(agent).get(key, "seen"))
                bodies[key] = message.evolve(read=True) if seen else message
                if key in kept.numbers.get(agent, {}):
                    cached[key] = bodies[key]
        lacking = lacking[len(near) :]
    try:
        return {key: bodies[key] for key in wanted}
    except KeyError as error:
        raise Unavailable(
            f"The text of message {error} to {agent!r} is not in the history of team "
            f"{log.address.team!r}.",
            remedy="A replica may have lost messages. Run `bullpen server check`.",
        ) from None


async def archived_ids(log: TeamLog, agent: str) -> set[str]:
    """Return the ids of an agent's archived messages."""
    states = fold(await read_events(log, 0, None)).mail.get(agent, {})
    return {key for key, state in states.items() if state == "archived"}


async def read_events(log: TeamLog, after: int, limit: int | None) -> list[Event]:
    """Return events after a number, from the log and its history. Raises Unavailable."""
    lines = await log.lines(max(0, after), limit)
    try:
        return [Event.decode(json_text.loads_line(line)) for line in lines]
    except ValueError as error:
        raise Unavailable(
            f"An event of team {log.address.team!r} after number {after} is damaged: {error}.",
            remedy="A replica may have lost messages. Run `bullpen server check`.",
        ) from None
