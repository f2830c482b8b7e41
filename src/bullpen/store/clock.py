"""The time, which stores and operations take as an argument so that tests can set it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds since 1970."""


def now_ms() -> int:
    """The time by the system's clock."""
    return time.time_ns() // 1_000_000
