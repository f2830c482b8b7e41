"""JSON text as Node writes it: two-space indent, no final newline, UTF-8, lone surrogates kept."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

DEPTH_MAX = 200
"""How deep a file may nest. A line of the log contains records, so it may nest deeper."""

_LINE_DEPTH_MAX = 240


def loads(data: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError, also if it nests too deeply."""
    return _read(data, DEPTH_MAX)


def loads_line(data: bytes | str) -> Any:
    """Return the value of a line that `dumps_line` wrote around records that `loads` accepts."""
    return _read(data, _LINE_DEPTH_MAX)


def dumps(value: Any) -> bytes:
    """Return `value` as `JSON.stringify(value, null, 2)` would. Raises ValueError.

    Fractions keep their value but not always their spelling (1e-7, 1e-07).
    """
    return _written(value, indent=2)


def dumps_line(value: Any) -> bytes:
    """Return `value` on one line, as `JSON.stringify(value)` would."""
    return _written(value, indent=None)


def too_deep(value: Any, levels: int) -> bool:
    """Return whether lists and objects in `value` nest more than this many levels."""
    rest = [(value, 1)]
    while rest:
        item, level = rest.pop()
        if not isinstance(item, dict | list | tuple):
            continue
        if level > levels:
            return True
        inner = item.values() if isinstance(item, dict) else item
        rest.extend((child, level + 1) for child in inner)
    return False


def _read(data: bytes | str, depth_max: int) -> Any:
    try:
        return from_json(data.encode() if isinstance(data, str) else data, allow_inf_nan=False)
    except ValueError:
        # Node escapes half an emoji as "\ud83d" when a text was cut there; only the standard
        # library reads it. It gets text, because it would guess the encoding of bytes.
        text = data if isinstance(data, str) else data.decode("utf-8")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if too_deep(value, depth_max):
        raise ValueError("nested too deeply")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _written(value: Any, *, indent: int | None) -> bytes:
    try:
        return to_json(value, indent=indent, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        # Only the standard library writes lone surrogates.
        pass
    if too_deep(value, _LINE_DEPTH_MAX):
        raise ValueError("nested too deeply")
    # As in Node, a number that JSON cannot represent becomes null.
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(finite, ensure_ascii=False, indent=indent, separators=separators)
    return text.encode("utf-8", "backslashreplace")
