"""What all tables of a team file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from bullpen.errors import Invalid
from bullpen.runs.watch.quiet_hours import span_of

SPAN = r"^(?:[01]?\d|2[0-3]):[0-5]\d-(?:[01]?\d|2[0-3]):[0-5]\d$"
"""The form of a span of local times."""


class FileTable(BaseModel):
    """The base of every table: unknown keys are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def quiet_span(text: str, consequence: str) -> str:
    """Return a time span that leaves some of the day. Raises ValueError."""
    try:
        begin, end = span_of(text)
    except Invalid:
        raise ValueError(f"{text!r} is not a time span such as '22:00-06:30'") from None
    if begin == end:
        raise ValueError(f"{text!r} is the whole day, so {consequence}")
    return text
