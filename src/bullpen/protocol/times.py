"""Times as the files have them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """A time in milliseconds since 1970, in the form 2026-11-14T22:47:12.537Z."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{ms % 1000:03d}Z"
