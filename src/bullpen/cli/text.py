"""Text from agents, files and command lines, shown so that it cannot steer a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# What marks an agent's processes; importing it from where it belongs would slow every `--help`.
_NONCE = "BULLPEN_NONCE"

_WRAPPED_LEAST = 40
"""On a terminal narrower than this, breaking between words leaves next to nothing on a line."""


def visible(text: str) -> str:
    """`text` with control characters, bidirectional overrides and lone surrogates as escapes.

    Line breaks and tabs are kept.
    """
    return _STEERING.sub(_escape, text.replace("\r\n", "\n"))


def json_text(data: bytes) -> bytes:
    """JSON with the same characters as JSON escapes: the same value, harmless on a terminal.

    Only strings can hold them, and what is below a space is escaped there already.
    """
    if data.isascii():
        return data
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", data.decode("utf-8")).encode()


def one_line(text: str) -> str:
    """`text` made visible, on one line."""
    # Most texts need nothing, and a long list has many of them.
    if text.isprintable():
        return text.rstrip()
    return visible(text).replace("\n", " ").replace("\t", " ").rstrip()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def tell(text: str, *, hang: str) -> None:
    """Write one line to standard error; at a terminal it is broken between words.

    `hang` is what the lines after the first begin with.
    """
    line = one_line(text)
    width = shutil.get_terminal_size().columns
    if sys.stderr is not None and sys.stderr.isatty() and width >= _WRAPPED_LEAST:
        line = textwrap.fill(
            line,
            width,
            subsequent_indent=hang,
            # Paths and commands stay whole, so that they can be copied.
            break_long_words=False,
            break_on_hyphens=False,
        )
    say(line)


def say(text: str) -> None:
    """Write a line to standard error, if there is one."""
    # Closed by the caller it is None, and `print` would then write to standard output.
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(visible(text), file=sys.stderr, flush=True)


def version() -> str:
    """The version that is installed."""
    # Slow to import, and wanted by one option only.
    from importlib.metadata import version as installed

    return installed("bullpen")


def fit_to_keep(texts: Sequence[str]) -> list[str]:
    """What somebody says, as it may be kept: an agent's words without its secrets.

    People's words stay as they are.
    """
    if not os.environ.get(_NONCE):
        return list(texts)
    from bullpen.agents.secrets import redactor_of

    return [*map(redactor_of(os.environ).text, texts)]
