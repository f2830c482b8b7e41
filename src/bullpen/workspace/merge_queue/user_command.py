"""Runs a user's command: a setup command, an after-merge command, a notice."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

_KEPT_BYTES = 8_000
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended; `code` is None if it took too long or could not be started."""

    code: int | None
    words: str

    @property
    def ok(self) -> bool:
        """Return whether it succeeded."""
        return self.code == 0


async def run_command(
    line: str, *, cwd: Path, env: Mapping[str, str], seconds: float, given: bytes = b""
) -> CommandEnd:
    """Run a command line to its end, or kill it with everything it started. Cancelling kills it.

    `given` is its standard input.
    """
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as printed:
        read.write(given)
        read.seek(0)
        try:
            # If this were cancelled half-way, nobody would know what to kill.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    ["/bin/sh", "-c", line],
                    stdin=read,
                    stdout=printed,
                    stderr=printed,
                    cwd=cwd,
                    env=dict(env),
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            return CommandEnd(None, f"it could not be started in {cwd}: {error}")
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
        f"it took longer than {seconds:g} s and was stopped"
        if code is None
        else f"exit code {code}"
    )
    return CommandEnd(code, f"{how}\n{text}".strip())


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
