"""What members said and did, read from their transcripts once for all visitors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.view.story import Story
from bullpen.view.stream import Stream, StreamItem
from bullpen.view.transcript import STYLES, TranscriptTail, moment, said

ROWS = 200
"""How many of the last rows or items a page shows."""


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """One row, with its number in the file."""

    number: int
    time: str
    kind: str
    style: str
    text: str


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """The end of what a member said and did: for people, and row by row."""

    items: Sequence[StreamItem] = ()
    rows: Sequence[TranscriptRow] = ()


@dataclass(slots=True)
class _OpenTranscript:
    path: Path
    tail: TranscriptTail
    stream: Stream
    read: int = 0
    rows: deque[TranscriptRow] = field(default_factory=lambda: deque(maxlen=ROWS))
    # The same object as long as nothing is new.
    record: MemberRecord = field(default_factory=MemberRecord)


class MemberRecords:
    """The ends of the transcripts of a team."""

    def __init__(self, supervisor: Supervisor, story: Callable[[], Story]) -> None:
        self._supervisor = supervisor
        self._story = story
        self._open: dict[str, _OpenTranscript] = {}
        self._lock = anyio.Lock()

    async def last(self, name: str) -> MemberRecord | None:
        """The end of a record; None if there is none on this machine. Raises NotFound."""
        path = await self._supervisor.transcript(name)
        async with self._lock:
            transcript = self._open.get(name)
            if transcript is None or transcript.path != path:
                member = self._story().members.get(name)
                cwd = None if member is None else member.cwd
                stream = Stream(lambda who: self._story().shown_name(who), cwd=cwd)
                transcript = _OpenTranscript(path, TranscriptTail(path), stream)
                self._open[name] = transcript
            return await to_thread.run_sync(_read_on, transcript)


def _read_on(transcript: _OpenTranscript) -> MemberRecord | None:
    if not transcript.tail.begun:
        return None
    fresh = transcript.tail.more()
    if not fresh:
        return transcript.record
    transcript.stream.take(fresh)
    for raw in fresh:
        transcript.read += 1
        kind, time = str(raw.get("kind", "?")), moment(raw.get("time"))[1]
        if text := said(raw):
            style = STYLES.get(kind, "plain")
            transcript.rows.append(TranscriptRow(transcript.read, time, kind, style, text))
    items = tuple(transcript.stream.items[-ROWS:])
    transcript.record = MemberRecord(items, tuple(transcript.rows))
    return transcript.record
