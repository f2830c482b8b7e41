"""The time and fresh ids: the two things an operation takes from outside itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""Milliseconds since 1970, UTC."""

NewId = Callable[[], str]
"""An id that nobody else has."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_ms() -> int:
    """The time now."""
    return time.time_ns() // 1_000_000


def iso(ms: int) -> str:
    """A time as the real program writes it: `2026-11-14T22:47:12.537Z`."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())
