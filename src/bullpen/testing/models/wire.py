"""What the vendors' wire formats have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal


def pieces(text: str) -> Iterator[str]:
    """Return a text as a stream brings it: in small pieces."""
    for start in range(0, len(text), 12):
        yield text[start : start + 12]


def text_of(content: Any) -> str:
    """Return the text of a message of OpenAI's APIs: a text, or parts with texts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.get("text", "") for part in content)


def speaker(role: str) -> Literal["user", "assistant"]:
    """Return who speaks, by the API's word."""
    return "assistant" if role == "assistant" else "user"


def parsed(arguments: str) -> dict[str, Any]:
    """Return the input of a tool call that comes back; broken input is returned as it is."""
    try:
        return dict(json.loads(arguments or "{}"))
    except ValueError:
        return {"INVALID_JSON": arguments}


def spoken(data: Any) -> str:
    """Return the text that an event of a stream brings, of whatever API."""
    match data:
        case {"delta": str(text)} | {"delta": {"text": str(text)} | {"partial_json": str(text)}}:
            return text
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": str(text)}}]}}]}:
            return text
    return ""


def tells_usage(data: Any) -> bool:
    """Return whether an event of a stream tells what the whole answer costs."""
    match data:
        case {"type": "message_delta", "usage": dict()} | {"choices": [], "usage": dict()}:
            return True
        case {"response": {"usage": dict()}}:
            return True
    return False
