"""JSON text as Node writes it: two-space indent, no final newline, UTF-8, lone surrogates kept."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def loads(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, is not UTF-8, or nests too deeply.
    """
    try:
        return from_json(data)
    except ValueError:
        # Node escapes half an emoji as "\ud83d" when a text was cut there; only the standard
        # library reads it.
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def dumps(value: Any) -> bytes:
    """Return `value` exactly as `JSON.stringify(value, null, 2)` would."""
    try:
        return to_json(value, indent=2)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError):
        return _with_surrogates(value, indent=2)


def dumps_line(value: Any) -> bytes:
    """Return `value` on one line, as `JSON.stringify(value)` would."""
    try:
        return to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError):
        return _with_surrogates(value, indent=None)


def _with_surrogates(value: Any, *, indent: int | None) -> bytes:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text.encode("utf-8", "backslashreplace")
