"""Runs a command that prints the entries of a backlog: one JSON object per line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from bullpen.errors import Unavailable
from bullpen.runs.teamfile.backlog.entries import (
    ENTRIES_MAX,
    LINE_MAX,
    SOURCE_BYTES_MAX,
    BacklogEntry,
    EntryLine,
    fields_of,
    wrong,
)

_LINE_BYTES_MAX = 40 * LINE_MAX
_SAID_CHARS_MAX = 1_000
_REMEDY = "Check that the command prints one JSON object per line and exits with 0."
_KILLED_WITHIN_S = 5.0


async def entries_by(
    command: str, folder: Path, *, environ: Mapping[str, str], timeout_s: float
) -> list[BacklogEntry]:
    """Return the entries that a command prints. A shell runs it in `folder`.

    Raises:
        Unavailable: it failed, took too long or printed too much.
        Invalid: a line is not an entry; the text says which.
    """
    out = await _printed(command, folder, environ, timeout_s)
    entries = []
    for number, line in enumerate(out.split(b"\n"), 1):
        if line.strip():
            entries.append(_entry(line, f"`{_short(command)}`, line {number}"))
    if len(entries) > ENTRIES_MAX:
        raise wrong(
            f"`{_short(command)}`", f"it prints {len(entries)} entries; the most is {ENTRIES_MAX}"
        )
    return entries


def _entry(line: bytes, where: str) -> BacklogEntry:
    if len(line) > _LINE_BYTES_MAX:
        raise wrong(where, f"the line is longer than {_LINE_BYTES_MAX} bytes")
    try:
        said = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise wrong(where, f"it is not valid JSON ({error})") from None
    if isinstance(said, dict) and said.get("description", "") is None:
        # Issue trackers print null for an issue without a text.
        said["description"] = ""
    fields = fields_of(said, where, EntryLine)
    assert isinstance(fields, EntryLine)
    if not (fields.id or "").strip():
        raise wrong(where, "id is missing: without it, the task would be added again each time")
    return BacklogEntry(
        where,
        str(fields.id),
        " ".join(fields.subject.split()),
        fields.description.replace("\r\n", "\n").strip("\n").rstrip(),
        fields,
    )


async def _printed(
    command: str, folder: Path, environ: Mapping[str, str], timeout_s: float
) -> bytes:
    try:
        process = await anyio.open_process(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Unavailable(f"{_of(command)} cannot be run: {error}.", remedy=_REMEDY) from None
    out, err = _Kept(SOURCE_BYTES_MAX), _Kept(10 * _SAID_CHARS_MAX)
    in_time = False
    try:
        with anyio.move_on_after(timeout_s):
            async with anyio.create_task_group() as group:
                for stream, kept in ((process.stdout, out), (process.stderr, err)):
                    if stream is not None:
                        group.start_soon(kept.read, stream)
            await process.wait()
            in_time = True
    finally:
        await _end(process)
    said = err.data.decode("utf-8", "replace").strip()[-_SAID_CHARS_MAX:]
    if not in_time:
        raise Unavailable(
            f"{_of(command)} took longer than {timeout_s:g} s. {said}".rstrip(),
            remedy="Raise timeout_s of the backlog, or fix the command.",
        )
    if process.returncode != 0:
        how = f"failed with {process.returncode}"
        raise Unavailable(f"{_of(command)} {how}: {said or 'it printed nothing'}", remedy=_REMEDY)
    if out.is_full:
        raise Unavailable(
            f"{_of(command)} printed more than {SOURCE_BYTES_MAX} bytes.", remedy=_REMEDY
        )
    return out.data


class _Kept:
    """The first bytes of a stream; the rest is read and dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.data = b""
        self.is_full = False

    async def read(self, stream: ByteReceiveStream) -> None:
        chunks: list[bytes] = []
        size = 0
        async for chunk in stream:
            if size <= self._most:
                chunks.append(chunk)
            size += len(chunk)
        self.is_full = size > self._most
        self.data = b"".join(chunks)[: self._most]


async def _end(process: Process) -> None:
    """Kill a process with everything that it started."""
    with anyio.CancelScope(shield=True):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(_KILLED_WITHIN_S):
            await process.aclose()


def _of(command: str) -> str:
    return f"The backlog command `{_short(command)}`"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
