"""Escapes control characters in text from agents, files and command lines."""

from __future__ import annotations

import re
from typing import NamedTuple

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

SHORT_MAX = 200
"""The length of a text that a list shows in one line."""


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


def shortened(text: str, most: int = SHORT_MAX) -> str:
    """`text` on one line of at most `most` characters. A cut is after a word and ends with `…`."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    begun, space, _ = line[:most].rpartition(" ")
    # In a text without spaces, or with one very long word, the cut is inside a word.
    return f"{begun if space and len(begun) > most // 2 else line[: most - 1]}…"


def within_sentence(message: str) -> str:
    """A sentence as the end of another one: "The key is wrong." becomes "the key is wrong."."""
    first, rest = message[:1], message[1:]
    return message if rest[:1].isupper() else f"{first.lower()}{rest}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
