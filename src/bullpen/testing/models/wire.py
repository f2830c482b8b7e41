"""What the wires of the vendors have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal


def pieces(text: str, size: int = 12) -> Iterator[str]:
    """A text as a stream brings it: in small pieces."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def speaker(role: str) -> Literal["user", "assistant"]:
    """Who speaks, by the word of the API."""
    return "assistant" if role == "assistant" else "user"


def parsed(arguments: str) -> dict[str, Any]:
    """The input of a tool call that comes back; what was broken is given as it is."""
    try:
        return dict(json.loads(arguments or "{}"))
    except ValueError:
        return {"INVALID_JSON": arguments}
