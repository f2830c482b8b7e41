"""The transcript of an agent: what it was told, said and did, one JSON object per line."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bullpen.protocol import json_text
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.format_version import FORMAT, refuse_newer, version_in

NAME = "transcript.jsonl"


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_KEPT_BYTES_MAX = 8 * 1024 * 1024
"""How much is kept in memory while the disk takes nothing."""


_BLOCK_BYTES = 256 * 1024
"""How much of a transcript is read at a time, from its end."""

RESULT_CHARS_MAX = 4_000
"""How much of the result of a call is recorded."""

_RESULT_END_CHARS = 1_500
_LEFT_OUT = re.compile(r"^\[\.\.\. \d+ characters, (\d+) lines left out \.\.\.\]$", re.MULTILINE)


class Transcript:
    """The transcript of one agent. Its first line has the version of the format.

    A line that a full disk does not take is kept, and written before the next one. Raises
    Unavailable if a newer major version wrote it.
    """

    def __init__(self, folder: Path, *, clock: Clock = now_ms) -> None:
        self.path = folder / NAME
        self._clock = clock
        _refuse_newer(self.path)
        self._descriptor = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._empty = os.fstat(self._descriptor).st_size == 0
        self._kept: deque[bytes] = deque()
        self._dropped = 0
        if _torn(self.path):
            self._kept.append(b"\n")
            self._write()

    def record(self, kind: str, **data: Any) -> None:
        """Add a line."""
        self._kept.append(self._line(kind, data))
        self._write()
        while sum(map(len, self._kept)) > _KEPT_BYTES_MAX and len(self._kept) > 1:
            # The first one may be on the disk in part.
            del self._kept[1]
            self._dropped += 1

    def _line(self, kind: str, data: dict[str, Any]) -> bytes:
        row = {"time": iso(self._clock()), "kind": kind, **data}
        if self._empty:
            self._empty, row["format"] = False, FORMAT
        return json_text.dumps_line(row) + b"\n"

    def _write(self) -> None:
        """Write what is kept, as much as the disk takes."""
        while self._kept:
            line = self._kept[0]
            try:
                written = os.write(self._descriptor, line)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                return
            if written < len(line):
                self._kept[0] = line[written:]
                continue
            self._kept.popleft()
            if self._dropped and not self._kept:
                text = f"{self._dropped} lines are missing here: the disk took nothing."
                self._dropped = 0
                self._kept.append(self._line("trouble", {"text": text}))

    def sync(self) -> None:
        """Wait until everything recorded is on disk."""
        self._write()
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def recorded_result(text: str) -> str:
    """A result as it is recorded. Of a long one, the end stays too: test programs sum up there.

    It is cut between lines if possible: half a secret could not be redacted any more.
    """
    if len(text) <= RESULT_CHARS_MAX:
        return text
    head, end = text[: RESULT_CHARS_MAX - _RESULT_END_CHARS], text[-_RESULT_END_CHARS:]
    head = head[: head.rfind("\n") + 1] or head
    end = end[end.find("\n") + 1 :] or end
    between = text[len(head) : len(text) - len(end)]
    said = f"[... {len(between)} characters, {between.count(chr(10))} lines left out ...]"
    return f"{head.removesuffix(chr(10))}\n{said}\n{end}"


def left_out_lines(text: str) -> int:
    """How many more lines a result had than were recorded of it."""
    found = _LEFT_OUT.search(text)
    return int(found[1]) - 1 if found else 0


def _refuse_newer(path: Path) -> None:
    with suppress(FileNotFoundError):
        refuse_newer(f"The transcript {path}", version_in(next(rows(path), {})))


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


def own_rows(
    path: Path,
    *,
    born_ms: int | None,
    kinds: Collection[str],
    until: Callable[[dict[str, Any]], bool],
) -> list[dict[str, Any]]:
    """The last rows of these kinds of the agent that was spawned at that time, oldest first.

    A transcript also has the rows of earlier agents with the same name, and can be very long. It is
    read from its end, back to the start of the process that wrote the last row `until` is true for.
    """
    found: list[dict[str, Any]] = []
    of_process: list[dict[str, Any]] = []
    enough = False
    for line in _lines_from_end(path):
        row = row_of(line)
        if row.get("kind") == "ready":
            if row.get("born") != born_ms:
                break
            found += of_process
            of_process = []
            if enough:
                break
        elif row.get("kind") in kinds:
            of_process.append(row)
            enough = enough or until(row)
    return found[::-1]


def _lines_from_end(path: Path) -> Iterator[bytes]:
    """The lines of a file that are not blank, the last one first."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        rest = b""
        while at:
            size = min(_BLOCK_BYTES, at)
            at = file.seek(at - size)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line.strip())
        if rest.strip():
            yield rest


def row_of(line: bytes) -> dict[str, Any]:
    """The row of a line; a row of kind `damaged` if it cannot be parsed."""
    try:
        row = json_text.loads(line)
    except ValueError:
        row = None
    if isinstance(row, dict):
        return row
    return {"kind": "damaged", "text": line.decode("utf-8", "backslashreplace").rstrip("\n")}
