"""Sending what is observed to a collector: once, or as long as the team goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
from anyio import to_thread

from bullpen.errors import Unavailable
from bullpen.team.team import Team
from bullpen.telemetry.observing import Observer
from bullpen.telemetry.otlp import Otlp
from bullpen.telemetry.traced import SpanRecord

EVERY_S = 10.0
"""How often metrics are sent while nothing happens, and what was refused is sent again."""

GAP_S = 1.0
_KEPT_MAX = 50_000


async def send_once(observer: Observer, otlp: Otlp) -> int:
    """Send the whole run; how many spans it has. Raises Unavailable."""
    _, spans = await observer.read_on()
    await to_thread.run_sync(otlp.send_spans, spans)
    await _send_metrics(observer, otlp)
    return len(spans)


async def keep_sending(
    team: Team, observer: Observer, otlp: Otlp, *, warn: Callable[[str], None]
) -> None:
    """Send what there is and what comes, until the team is deleted. Raises NotFound then.

    What a collector does not take is kept and sent again; of that, the oldest is dropped first.
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
                    warn(f"{error.message} It is tried again.")
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
