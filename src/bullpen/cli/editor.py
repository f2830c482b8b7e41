"""Letting a person change a text in the editor of their choice."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from bullpen.cli.session import is_terminal
from bullpen.errors import Refused, Unavailable


def edited(text: str, *, suffix: str) -> str:
    """The text as a person left it in $VISUAL, $EDITOR or vi.

    Raises:
        Refused: there is no terminal, or the editor ended with an error (no_terminal, not_edited).
        Unavailable: the editor cannot be started.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "There is no terminal for an editor.",
            reason="no_terminal",
            remedy="Give the new text on the command line.",
        )
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="bullpen-") as folder:
        path = Path(folder, f"answer{suffix}")
        path.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603
        except OSError as error:
            raise Unavailable(
                f"The editor {words[0]!r} cannot be started: {error.strerror}.",
                remedy="Set EDITOR to one that is there.",
            ) from None
        if code != 0:
            raise Refused(
                f"The editor ended with {code}, so nothing was answered.",
                reason="not_edited",
                remedy="Try again.",
            )
        return path.read_text(encoding="utf-8", errors="replace")
