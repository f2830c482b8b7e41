"""Restores a team from its history: blocks first, then the snapshot, then the directory entry."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer
from bullpen.store.nats.log.history import slices
from bullpen.store.nats.log.log import TeamLog
from bullpen.store.nats.log.state import LogState
from bullpen.store.nats.log.tail import event_line

_TRY_S = 10.0


async def store(log: TeamLog, events: Sequence[Event]) -> None:
    """Write a history and its snapshot to a log that nobody knows of yet. Raises Unavailable."""
    kept = LogState(format=log.kept.format)
    for event in events:
        kept.apply(event)
    lines = [event_line(event, secrets.token_hex(8), 0, kept.format) for event in events]
    try:
        first = events[0].seq
        for part in slices(lines):
            first += await log.history.store(kept, first, part, timeout_s=_TRY_S)
        data = json_text.dumps_line({"v": 1, "snapshot": kept.snapshot()})
        client = await log.link.client()
        await api_requests.append(client, log.address.log, data, expect=0, timeout_s=_TRY_S)
    except (NoAnswer, HeadMoved, ApiError) as error:
        raise Unavailable(
            f"Team {log.address.team!r} could not be written to {log.link.endpoint}: {error}.",
            remedy="Nothing of the team is visible. Check `bullpen server status`, then try again.",
        ) from None
