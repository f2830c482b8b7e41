"""Time and uniqueness for the file store; tests hand in their own clock."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Milliseconds since 1970."""

_counter = itertools.count()
_origin = (0, "")


def now_ms() -> int:
    """The time by the system's clock."""
    return time.time_ns() // 1_000_000


def iso(ms: int) -> str:
    """A time as the files have it: 2026-11-14T22:47:12.537Z."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{ms % 1000:03d}Z"


def nonce() -> str:
    """A short text that no other call, process or fork gives."""
    global _origin
    if _origin[0] != os.getpid():
        _origin = (os.getpid(), secrets.token_hex(4))
    return f"{_origin[1]}-{next(_counter):x}"
