"""A team from its history: all parts first, then the snapshot, then the team is there."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from bullpen.errors import Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Event
from bullpen.store.nats import wire
from bullpen.store.nats.history import slices
from bullpen.store.nats.kept import Kept
from bullpen.store.nats.log import TeamLog
from bullpen.store.nats.wire import ApiError, HeadMoved, NoAnswer

_TRY_S = 10.0


async def store(log: TeamLog, events: Sequence[Event]) -> None:
    """Write a history and the snapshot of it to a log that nobody knows of yet.

    Raises:
        Unavailable: it could not be written; nothing of it can be seen.
    """
    kept = Kept()
    for event in events:
        kept.apply(event)
    lines = [
        jsontext.dumps_line({"v": 1, "eid": secrets.token_hex(8), "prev": 0, **event.encode()})
        for event in events
    ]
    try:
        first = 1
        for part in slices(lines):
            first += await log.history.store(kept.parts, first, part, timeout_s=_TRY_S)
        data = jsontext.dumps_line({"v": 1, "snapshot": kept.snapshot()})
        client = await log.link.client()
        await wire.append(client, log.address.log, data, expect=0, timeout_s=_TRY_S)
    except (NoAnswer, HeadMoved, ApiError) as error:
        raise Unavailable(
            f"Team {log.address.team!r} could not be written to {log.link.endpoint}: {error}.",
            remedy="See `bullpen server status`, then try again; nothing of it can be seen.",
        ) from None
