"""Sends the traces and metrics of a team to a collector, once or continuously."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
from anyio import to_thread

from bullpen.doors.telemetry.observed_team import Observer
from bullpen.doors.telemetry.otlp import Otlp
from bullpen.doors.telemetry.span_records import SpanRecord
from bullpen.errors import Unavailable
from bullpen.team.team import Team

EVERY_S = 10.0
"""How often metrics are sent while nothing happens, and failed sends are retried."""

GAP_S = 1.0
_KEPT_MAX = 50_000


async def send_once(observer: Observer, otlp: Otlp) -> int:
    """Send the whole run and return its number of spans. Raises Unavailable."""
    _, spans = await observer.read_on()
    await to_thread.run_sync(otlp.send_spans, spans)
    await _send_metrics(observer, otlp)
    return len(spans)


async def keep_sending(
    team: Team, observer: Observer, otlp: Otlp, *, warn: Callable[[str], None]
) -> None:
    """Send the run so far and everything new, until the team is deleted. Raises NotFound then.

    Spans that could not be sent are kept for the next attempt; the oldest are dropped first.
    """
    unsent: list[SpanRecord] = []
    trouble: str | None = None
    async with aclosing(team.changes(every_s=EVERY_S)) as changes:
        async for _ in changes:
            try:
                _, spans = await observer.read_on()
                unsent = [*unsent, *spans][-_KEPT_MAX:]
                await to_thread.run_sync(otlp.send_spans, unsent, abandon_on_cancel=True)
                unsent = []
                await _send_metrics(observer, otlp)
                trouble = None
            except Unavailable as error:
                if trouble is None:
                    warn(f"{error.message} Trying again.")
                trouble = error.message
            await anyio.sleep(GAP_S)


async def _send_metrics(observer: Observer, otlp: Otlp) -> None:
    metrics, trace = await observer.metrics(), observer.trace
    await to_thread.run_sync(
        lambda: otlp.send_metrics(
            metrics, team=trace.team, from_ms=trace.began_ms, now_ms=observer.now_ms
        ),
        abandon_on_cancel=True,
    )
