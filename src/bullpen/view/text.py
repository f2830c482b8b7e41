"""Escapes control characters in text from agents, files and command lines."""

from __future__ import annotations

import re
from typing import NamedTuple

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Cell(NamedTuple):
    """A text with the style it is shown in: a word such as `good` or `bad`, or a colour."""

    text: str
    style: str = ""


def visible(text: str) -> str:
    """`text` with control characters, bidirectional overrides and lone surrogates as escapes.

    Line breaks and tabs are kept.
    """
    return _STEERING.sub(_escape, text.replace("\r\n", "\n"))


def json_text(data: bytes) -> bytes:
    """JSON with control characters as JSON escapes: the same value, safe on a terminal."""
    if data.isascii():
        return data
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", data.decode("utf-8")).encode()


def one_line(text: str) -> str:
    """`text` made visible, on one line."""
    # Quick for most texts: a long list has many of them.
    if text.isprintable():
        return text.rstrip()
    return visible(text).replace("\n", " ").replace("\t", " ").rstrip()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
