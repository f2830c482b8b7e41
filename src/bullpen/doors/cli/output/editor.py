"""Let a person change a text in their editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bullpen.doors.cli.output.page import is_terminal
from bullpen.errors import Refused, Unavailable


def edited(text: str, *, suffix: str) -> str:
    """The text as a person left it in $VISUAL, $EDITOR or vi.

    Raises:
        Refused: there is no terminal, or the editor ended with an error (no_terminal, not_edited).
        Unavailable: the editor cannot be started.
    """
    _need_terminal("Pass the new text on the command line.")
    with tempfile.TemporaryDirectory(prefix="bullpen-") as folder:
        path = Path(folder, f"answer{suffix}")
        path.write_text(text, encoding="utf-8")
        _edit(path, otherwise="nothing was answered")
        return path.read_text(encoding="utf-8", errors="replace")


def edit_file(path: Path, *, begin: Callable[[], None]) -> None:
    """Let a person change a file itself; `begin` creates it. Raises as `edited`."""
    _need_terminal(f"Write the file by other means: {path}")
    begin()
    _edit(path, otherwise="the file may be unchanged")


def _need_terminal(remedy: str) -> None:
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused("An editor needs a terminal.", reason="no_terminal", remedy=remedy)


def _edit(path: Path, *, otherwise: str) -> None:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603
    except OSError as error:
        raise Unavailable(
            f"Cannot start the editor {words[0]!r}: {error.strerror}.",
            remedy="Set EDITOR to an editor that is installed.",
        ) from None
    if code != 0:
        raise Refused(
            f"The editor failed with exit code {code}, so {otherwise}.",
            reason="not_edited",
            remedy="Try again.",
        )
