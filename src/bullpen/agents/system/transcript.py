"""The transcript of an agent: what it was told, said and did, one JSON object per line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bullpen.protocol import json_text
from bullpen.protocol.clock import Clock, iso, now_ms

NAME = "transcript.jsonl"


class Transcript:
    """The transcript of one agent. Each line is written completely or not at all."""

    def __init__(self, folder: Path, *, clock: Clock = now_ms) -> None:
        self.path = folder / NAME
        self._clock = clock
        self._descriptor = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        if _torn(self.path):
            os.write(self._descriptor, b"\n")

    def record(self, kind: str, **data: Any) -> None:
        """Add a line."""
        row = {"time": iso(self._clock()), "kind": kind, **data}
        os.write(self._descriptor, json_text.dumps_line(row) + b"\n")

    def sync(self) -> None:
        """Wait until everything recorded is on disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _torn(path: Path) -> bool:
    """Whether a killed process left an incomplete last line."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a transcript. A line that cannot be parsed becomes a row of kind `damaged`."""
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield row_of(line)


def row_of(line: bytes) -> dict[str, Any]:
    """The row of a line; a row of kind `damaged` if it cannot be parsed."""
    try:
        row = json_text.loads(line)
    except ValueError:
        row = None
    if isinstance(row, dict):
        return row
    return {"kind": "damaged", "text": line.decode("utf-8", "backslashreplace").rstrip("\n")}
