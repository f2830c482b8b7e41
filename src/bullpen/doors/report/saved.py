"""Reads a saved log: the output of `bullpen events --json`, as one object or as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event

_REMEDY = "Save the log of a team with: bullpen events --json > FILE"


def saved_events(path: Path) -> list[Event]:
    """The events in a file. Raises Invalid if it holds something else, OSError."""
    data = path.read_bytes()
    events = [_event(raw, number) for number, raw in enumerate(_rows(data, path), 1)]
    if not events:
        raise Invalid(f"There are no events in {path}.", remedy=_REMEDY)
    return events


def _rows(data: bytes, path: Path) -> list[Any]:
    try:
        whole = json_text.loads(data)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("events"), list):
        found: list[Any] = whole["events"]
        return found
    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(json_text.loads(line))
        except ValueError as error:
            raise Invalid(
                f"Line {number} of {path} is not JSON: {error}.", remedy=_REMEDY
            ) from None
    return rows


def _event(raw: Any, number: int) -> Event:
    try:
        if not isinstance(raw, dict):
            raise ValueError("it is not a JSON object")
        return Event.decode(raw)
    except ValueError as error:
        raise Invalid(f"Event {number} cannot be read: {error}.", remedy=_REMEDY) from None
