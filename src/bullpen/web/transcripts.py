"""The transcripts of members as pages show them: the last rows, read once for all who look."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.supervisor import Supervisor
from bullpen.view.transcript import STYLES, Tail, moment, said

ROWS = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One row, with its place in the file."""

    number: int
    time: str
    kind: str
    style: str
    text: str


@dataclass(slots=True)
class _Reel:
    path: Path
    tail: Tail
    read: int = 0
    rows: deque[Row] = field(default_factory=lambda: deque(maxlen=ROWS))


class Transcripts:
    """The ends of transcripts, by member."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._reels: dict[str, _Reel] = {}
        self._lock = anyio.Lock()

    async def last(self, name: str) -> Sequence[Row] | None:
        """The last rows; None if there is no transcript on this machine. Raises NotFound."""
        path = await self._supervisor.transcript(name)
        async with self._lock:
            reel = self._reels.get(name)
            if reel is None or reel.path != path:
                reel = self._reels[name] = _Reel(path, Tail(path))
            return await to_thread.run_sync(_read_on, reel)


def _read_on(reel: _Reel) -> Sequence[Row] | None:
    if not reel.tail.begun:
        return None
    for raw in reel.tail.more():
        reel.read += 1
        row = _row(reel.read, raw)
        if row.text:
            reel.rows.append(row)
    return tuple(reel.rows)


def _row(number: int, raw: dict[str, Any]) -> Row:
    kind = str(raw.get("kind", "?"))
    time = moment(raw.get("time"))[1]
    return Row(number, time, kind, STYLES.get(kind, "plain"), said(raw))
