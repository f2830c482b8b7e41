"""Let a person change a text in their editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from bullpen.doors.cli.output.page import is_terminal
from bullpen.errors import Refused, Unavailable


def edited(text: str, *, suffix: str) -> str:
    """The text as a person left it in $VISUAL, $EDITOR or vi.

    Raises:
        Refused: there is no terminal, or the editor ended with an error (no_terminal, not_edited).
        Unavailable: the editor cannot be started.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "An editor needs a terminal.",
            reason="no_terminal",
            remedy="Pass the new text on the command line.",
        )
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="bullpen-") as folder:
        path = Path(folder, f"answer{suffix}")
        path.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603
        except OSError as error:
            raise Unavailable(
                f"Cannot start the editor {words[0]!r}: {error.strerror}.",
                remedy="Set EDITOR to an editor that is installed.",
            ) from None
        if code != 0:
            raise Refused(
                f"The editor failed with exit code {code}, so nothing was answered.",
                reason="not_edited",
                remedy="Try again.",
            )
        return path.read_text(encoding="utf-8", errors="replace")
