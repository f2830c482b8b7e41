"""Times as the files have them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """A time in milliseconds since 1970, in the form 2026-11-14T22:47:12.537Z."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{ms % 1000:03d}Z"


def ms_of(text: str) -> int | None:
    """The time that `iso` wrote, in milliseconds since 1970; None if it is no such text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return round(moment.timestamp() * 1000)
