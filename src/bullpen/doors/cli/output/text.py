"""Text from agents, files and command lines, shown so that it cannot steer a terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import textwrap

from bullpen.view.text import one_line, visible

_WRAPPED_LEAST = 40
"""On a terminal narrower than this, breaking between words leaves next to nothing on a line."""


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
