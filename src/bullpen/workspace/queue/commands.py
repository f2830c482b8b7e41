"""Running a command of the user's: the set-up of a tree, and what is to be done after a landing."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
"""What every command needs; no key is among it."""

_KEPT_BYTES = 8_000
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `code` is None if it took too long or could not be started."""

    code: int | None
    words: str

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0


async def run_command(line: str, *, cwd: Path, env: Mapping[str, str], seconds: float) -> Ended:
    """Run a command line to its end, or end it with all that it started. Cancelling ends it too."""
    with tempfile.TemporaryFile() as printed:
        try:
            # Cancelled half-way, it could not be told what to end.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    ["/bin/sh", "-c", line],
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    cwd=cwd,
                    env=dict(env),
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            return Ended(None, f"it cannot be started in {cwd}: {error}")
        code: int | None = None
        try:
            with anyio.move_on_after(seconds):
                code = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                _signal(process.pid, signal.SIGTERM)
                with anyio.move_on_after(_GRACE_S):
                    await process.wait()
                _signal(process.pid, signal.SIGKILL)
                await process.wait()
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - _KEPT_BYTES))
        text = printed.read().decode("utf-8", "replace").strip()
    how = (
        f"it took longer than {seconds:g} s and was ended" if code is None else f"exit code {code}"
    )
    return Ended(code, f"{how}\n{text}".strip())


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
