"""Removes the oldest history of a team as its settings say, after a copy of it is safe.

First the state at the end of what goes is stored, on a subject of its own: the log begins with it
from then on. Then a snapshot names it, which makes it so. Only then are the blocks removed.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import secrets
from contextlib import suppress

from anyio import to_thread

from bullpen.errors import Refused, Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.team import Retention
from bullpen.store.events.checkpoint import BEGIN, Checkpoint
from bullpen.store.events.fold import fold
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer, api
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import PAYLOAD_MAX
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.log.history import LogHistory
from bullpen.store.nats.log.state import HistoryPart, LogState

_log = logging.getLogger(__name__)

_DAY_MS = 86_400_000
_MB = 1_000_000
_TRY_S = 5.0


class HistoryTrim:
    """The retention of one team's history."""

    def __init__(self, link: NatsConnection, address: Address, history: LogHistory) -> None:
        self._link = link
        self._address = address
        self._history = history
        # The length of each block and the time of its last event, by the message that holds it.
        self._known: dict[int, tuple[int, str]] = {}
        self._is_cut = False

    async def cut(self, kept: LogState) -> None:
        """Let the log begin later, if its settings say so. A snapshot must be put after this.

        If that cannot be done, everything stays as it is.
        """
        rule = kept.team.facts.retention
        # Others may not remove anything from a stream.
        if rule is None or not self._link.bearer.may_create:
            return
        try:
            await self._cut(kept, rule)
        except (Unavailable, NoAnswer, ApiError) as error:
            _log.warning("the history of %s stays: %s", self._address.team, error)

    async def _cut(self, kept: LogState, rule: Retention) -> None:
        count = await self._due(kept.parts, rule)
        if not count:
            return
        last = kept.parts[count].first - 1
        lines = await self._history.read(kept, (), 0, None, last=last)
        data = _begin(lines)
        if len(data) > PAYLOAD_MAX:
            return
        if rule.export is not None:
            await to_thread.run_sync(_export, rule.export, self._address.team, lines, last)
        kept.begin = HistoryPart(last, await self._store(data, kept.begin))
        kept.parts = kept.parts[count:]
        _forget(kept, lines, last)
        self._is_cut = True

    async def free(self, kept: LogState) -> None:
        """Remove what a stored snapshot no longer names. What cannot be removed stays unused."""
        if not self._is_cut or kept.begin is None:
            return
        self._is_cut = False
        client = await self._link.client()
        call = f"STREAM.PURGE.{self._address.stream}"
        with suppress(ApiError, Refused, Unavailable):
            for subject, first in (
                (self._address.history, kept.parts[0].seq),
                (self._address.begin, kept.begin.seq),
            ):
                await api(client, call, {"filter": subject, "seq": first}, timeout_s=_TRY_S)

    async def _due(self, parts: list[HistoryPart], rule: Retention) -> int:
        """Return how many of the oldest blocks are too old or too many; never all of them."""
        total = 0
        if rule.keep_mb is not None:
            for part in parts:
                total += (await self._about(part))[0]
        oldest = None
        if rule.keep_days is not None:
            oldest = iso(now_ms() - round(rule.keep_days * _DAY_MS))
        for count, part in enumerate(parts[:-1]):
            size, time = await self._about(part)
            old = oldest is not None and time < oldest
            large = rule.keep_mb is not None and total > rule.keep_mb * _MB
            if not (old or large):
                return count
            total -= size
        return max(0, len(parts) - 1)

    async def _about(self, part: HistoryPart) -> tuple[int, str]:
        if part.seq not in self._known:
            lines, size = await self._history.block(part)
            time = json_text.loads_line(lines[-1]).get("time")
            self._known[part.seq] = (size, str(time))
        return self._known[part.seq]

    async def _store(self, data: bytes, before: HistoryPart | None) -> int:
        client, expect = await self._link.client(), 0 if before is None else before.seq
        for _ in range(3):
            try:
                return await api_requests.append(
                    client, self._address.begin, data, expect=expect, timeout_s=_TRY_S
                )
            except HeadMoved as moved:
                # A process that was killed before it could put its snapshot left one.
                expect = moved.head or 0
        raise NoAnswer("the beginning of the log is uncertain")


def _begin(lines: list[bytes]) -> bytes:
    """Return the event that the log begins with in the place of these."""
    state = Checkpoint()
    for line in lines:
        state.take(json_text.loads_line(line))
    raw = {"v": 1, "eid": secrets.token_hex(8), "prev": 0, "seq": state.seq, "time": state.time}
    raw |= {"actor": "bullpen", "op": BEGIN, "format": FORMAT, "changes": state.changes()}
    return json_text.dumps_line(raw)


def _forget(kept: LogState, lines: list[bytes], last: int) -> None:
    """Let mail be found in the event that the log begins with, and archived mail go."""
    kept.numbers = {
        agent: {key: max(number, last) for key, number in box.items()}
        for agent, box in kept.numbers.items()
    }
    gone = fold([Event.decode(json_text.loads_line(line)) for line in lines]).mail
    for agent, states in gone.items():
        left = kept.archived.get(agent, 0) - list(states.values()).count("archived")
        if left > 0:
            kept.archived[agent] = left
        else:
            kept.archived.pop(agent, None)
            kept.archived_up_to.pop(agent, None)


def _export(folder: str, team: str, lines: list[bytes], last: int) -> None:
    """Write events to a file. Raises Unavailable."""
    first = int(json_text.loads_line(lines[0])["seq"])
    data = gzip.compress(b"\n".join(lines) + b"\n", mtime=0)
    name = f"{team}-{first:012d}-{last:012d}-{hashlib.sha256(data).hexdigest()}.jsonl.gz"
    path = os.path.join(folder, name)
    draft = f"{path}.{secrets.token_hex(4)}"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise Unavailable(
            f"The history of team {team!r} could not be exported to {folder}: {error.strerror}.",
            remedy="Check the folder. Nothing was removed.",
        ) from error
