"""When a run ends: its tasks are done, all agents are idle, or the time is up. Pure.

`07:00` is the next 07:00 in local time, `8h` and `1h30m` count from now, and `2031-05-01T07:00` is
a moment, in local time unless it has an offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from bullpen.errors import Invalid

_CLOCK = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)")
_SPAN = re.compile(
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?"
)
_SPAN_MAX = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Until:
    """When a run ends. With `at_ms` it is stopped then at the latest.

    `span_s` is set if a duration was given: then the clock of the machine does not matter.
    """

    what: Literal["done", "idle", "time"] = "done"
    at_ms: int | None = None
    words: str = "done"
    span_s: float | None = None

    def left_s(self, wall_ms: int) -> float | None:
        """Return how long a run that starts now may take; None if there is no time."""
        if self.span_s is not None or self.at_ms is None:
            return self.span_s
        return (self.at_ms - wall_ms) / 1000


DONE = Until()


def read_until(text: str, *, now: datetime) -> Until:
    """Return what `done`, `idle` or a time means. `now` has a time zone. Raises Invalid."""
    word = text.strip()
    if word == "done":
        return DONE
    if word == "idle":
        return Until("idle", words="idle")
    at = _moment(word, now)
    if at is None:
        raise Invalid(
            f"{text!r} is not a valid --until value.",
            remedy="Use done, idle, a time (07:00), a duration (8h, 90m) or 2031-05-01T07:00.",
        )
    if at <= now:
        raise Invalid(f"{text!r} is in the past.", remedy="Use a time in the future.")
    span_s = (at - now).total_seconds() if _SPAN.fullmatch(word) else None
    return Until("time", round(at.timestamp() * 1000), word, span_s)


def _moment(word: str, now: datetime) -> datetime | None:
    clock = _CLOCK.fullmatch(word)
    if clock is not None:
        return next_at(int(clock["hour"]), int(clock["minute"]), now)
    span = _SPAN.fullmatch(word)
    if word and span is not None:
        parts = {key: float(value) for key, value in span.groupdict(default="0").items()}
        try:
            length = timedelta(hours=parts["h"], minutes=parts["m"], seconds=parts["s"])
        except OverflowError:
            return None
        return now + length if length <= _SPAN_MAX else None
    try:
        at = datetime.fromisoformat(word)
    except ValueError:
        return None
    return at.astimezone() if at.tzinfo is None else at


def next_at(hour: int, minute: int, now: datetime) -> datetime:
    """Return the next moment after `now` with this local time."""
    naive = now.astimezone().replace(tzinfo=None)
    for days in (0, 1, 2):
        day = naive + timedelta(days=days)
        shown = day.replace(hour=hour, minute=minute, second=0, microsecond=0)
        # With the offset of that day: it may be summer or winter time.
        at = shown.astimezone()
        if at > now:
            return at
    raise AssertionError("some time of the next two days is later than now")
