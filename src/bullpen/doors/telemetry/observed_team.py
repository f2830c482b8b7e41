"""Reads the log of a team and the transcripts on this machine, as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.doors.telemetry.metrics import Meter, Metric
from bullpen.doors.telemetry.span_records import SpanRecord
from bullpen.doors.telemetry.spans import Trace
from bullpen.doors.telemetry.tool_spans import ToolCall, calls_of
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team
from bullpen.view.transcript import TranscriptTail


class Observer:
    """Observes one team. Transcripts are those below `home`, if there are any."""

    def __init__(
        self, team: Team, home: Path, *, content: bool = False, clock: Clock = now_ms
    ) -> None:
        self._team = team
        self._home = home
        self._content = content
        self._clock = clock
        self._start()

    def _start(self) -> None:
        self.trace = Trace(content=self._content)
        self.meter = Meter()
        self._seq = 0
        self._tails: dict[str, TranscriptTail] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._calls: dict[str, list[ToolCall]] = {}

    async def read_on(self) -> tuple[list[Event], list[SpanRecord]]:
        """What is new in the log, and the spans that ended with it."""
        fresh = list(await self._team.events(after=self._seq))
        if fresh and fresh[0].seq != self._seq + 1:
            # Another team with this name was created.
            self._start()
            fresh = list(await self._team.events())
        config = await self._team.agents.config()
        return fresh, await to_thread.run_sync(self._take, fresh, config)

    async def metrics(self) -> list[Metric]:
        """All metrics, as of the last read."""
        return await to_thread.run_sync(self._measure)

    @property
    def now_ms(self) -> int:
        """Now while an agent works, else the time of the last event."""
        return self._clock() if self.trace.at_work else self.trace.at_ms

    def _take(self, fresh: Sequence[Event], config: TeamConfig) -> list[SpanRecord]:
        for name in self.trace.agents_in(fresh) - set(self._tails):
            self._tails[name] = TranscriptTail(agent_folder(self._home, config, name) / TRANSCRIPT)
        self._read_transcripts()
        spans = self.trace.tell(fresh, self._calls)
        self.meter.tell(fresh, spans)
        self._seq = fresh[-1].seq if fresh else self._seq
        return spans

    def _measure(self) -> list[Metric]:
        self._read_transcripts()
        return self.meter.metrics(self._calls, now_ms=self.now_ms)

    def _read_transcripts(self) -> None:
        for name, tail in self._tails.items():
            more = [row for row in tail.more() if row.get("kind") in ("tool", "result")]
            if more:
                self._rows.setdefault(name, []).extend(more)
                self._calls[name] = calls_of(self._rows[name])
