"""The time: a clock that stores and operations are given, and how files write times."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Milliseconds since 1970."""


def now_ms() -> int:
    """Return the time of the system's clock."""
    return time.time_ns() // 1_000_000


def slept_s() -> float:
    """Return for how long the machine has slept since it was started, if the system says.

    Clocks for durations stand still in that time.
    """
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def iso(ms: int) -> str:
    """Return a time in milliseconds since 1970 as 2026-11-14T22:47:12.537Z."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{ms % 1000:03d}Z"


def ms_of(text: str) -> int | None:
    """Return the milliseconds since 1970 of a text from `iso`; None if it is not such a text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return round(moment.timestamp() * 1000)
