"""JSON text as Node writes it: two-space indent, no final newline, UTF-8, lone surrogates kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

DEPTH_MAX = 200
"""How deep a file may nest. A line of the log contains records, so it may nest deeper."""

_LINE_DEPTH_MAX = 240

# Names of this module are found sooner than those of another, and this is the hottest code.
_loads, _dumps, _INDENT = orjson.loads, orjson.dumps, orjson.OPT_INDENT_2

_CONTAINERS = (dict, list, tuple)

_PLUS = ord("+")
_LARGE_FRACTION = re.compile(rb"\de\+\d")

_TOO_DEEP_SIZE_MIN = DEPTH_MAX * DEPTH_MAX
"""What nests more than `DEPTH_MAX` levels, each further in, has no fewer bytes."""


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


def shaped(schema: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object for programs with the name of its schema first, such as `task/1`."""
    told = {"schema": "", **value}
    told["schema"] = f"bullpen/{schema}"
    return told


def too_deep(value: Any, levels: int) -> bool:
    """Return whether lists and objects in `value` nest more than this many levels."""
    rest = [(value, 1)] if isinstance(value, _CONTAINERS) else []
    while rest:
        item, level = rest.pop()
        if not isinstance(item, _CONTAINERS):
            continue
        if level > levels:
            return True
        inner = item.values() if isinstance(item, dict) else item
        rest.extend((child, level + 1) for child in inner)
    return False


def _read(data: bytes | str, depth_max: int) -> Any:
    try:
        value = _loads(data)
        # Written again, it shows whether orjson read all of it, and how deep it is.
        text = _dumps(value, None, _INDENT)
        if _PLUS not in text and len(text) < _TOO_DEEP_SIZE_MIN:
            return value
        if _is_exact(text, depth_max):
            return value
    except (ValueError, TypeError):
        pass
    # Node escapes half an emoji as "\ud83d" when a text was cut there; only the standard library
    # reads it. It gets text, because it would guess the encoding of bytes.
    decoded = data if isinstance(data, str) else data.decode("utf-8")
    try:
        value = json.loads(decoded, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if too_deep(value, depth_max):
        raise ValueError("nested too deeply")
    return value


def _is_exact(text: bytes, depth_max: int) -> bool:
    """Return whether orjson surely read every digit, and no more levels than are allowed.

    It reads an integer beyond 64 bits as a fraction, which it writes as 1.2e+20. What is in the
    first level too many is this far in, two spaces for each level; nothing in it is no harm.
    """
    too_far_in = b"\n" + b"  " * (depth_max + 1)
    if _PLUS in text and _LARGE_FRACTION.search(text):
        return False
    return len(text) < _TOO_DEEP_SIZE_MIN or too_far_in not in text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _written(value: Any, *, indent: int | None) -> bytes:
    option = _INDENT if indent else None
    try:
        return _dumps(value, None, option)
    except TypeError:
        pass
    if too_deep(value, _LINE_DEPTH_MAX):
        raise ValueError("nested too deeply")
    # As in Node, a number that JSON cannot represent becomes null.
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    with suppress(TypeError):
        return _dumps(_with_all_digits(finite), None, option)
    # Only the standard library writes lone surrogates.
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(finite, ensure_ascii=False, indent=indent, separators=separators)
    return text.encode("utf-8", "backslashreplace")


def _with_all_digits(value: Any) -> Any:
    """Return a value that orjson writes although it has integers beyond 64 bits."""
    if isinstance(value, dict):
        return {key: _with_all_digits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_all_digits(item) for item in value]
    if isinstance(value, int) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    return value
