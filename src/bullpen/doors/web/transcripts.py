"""The last transcript rows of members, read once for all visitors."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.view.transcript import STYLES, TranscriptTail, moment, said

ROWS = 200


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """One row, with its number in the file."""

    number: int
    time: str
    kind: str
    style: str
    text: str


@dataclass(slots=True)
class _OpenTranscript:
    path: Path
    tail: TranscriptTail
    read: int = 0
    rows: deque[TranscriptRow] = field(default_factory=lambda: deque(maxlen=ROWS))


class Transcripts:
    """The ends of the transcripts of a team."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._open: dict[str, _OpenTranscript] = {}
        self._lock = anyio.Lock()

    async def last(self, name: str) -> Sequence[TranscriptRow] | None:
        """The last rows; None if there is no transcript on this machine. Raises NotFound."""
        path = await self._supervisor.transcript(name)
        async with self._lock:
            transcript = self._open.get(name)
            if transcript is None or transcript.path != path:
                transcript = self._open[name] = _OpenTranscript(path, TranscriptTail(path))
            return await to_thread.run_sync(_read_on, transcript)


def _read_on(transcript: _OpenTranscript) -> Sequence[TranscriptRow] | None:
    if not transcript.tail.begun:
        return None
    for raw in transcript.tail.more():
        transcript.read += 1
        kind, time = str(raw.get("kind", "?")), moment(raw.get("time"))[1]
        if text := said(raw):
            style = STYLES.get(kind, "plain")
            transcript.rows.append(TranscriptRow(transcript.read, time, kind, style, text))
    return tuple(transcript.rows)
