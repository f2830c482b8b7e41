"""A command that prints the entries of a backlog: one JSON object a line."""

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
from bullpen.teamfile.entries import (
    ENTRIES_MAX,
    LINE_MAX,
    SOURCE_BYTES_MAX,
    Entry,
    Line,
    fields_of,
    wrong,
)

_LINE_BYTES_MAX = 40 * LINE_MAX
_SAID_CHARS_MAX = 1_000
_REMEDY = "See that it prints one JSON object a line, and ends with 0."
_KILLED_WITHIN_S = 5.0


async def entries_by(
    command: str, folder: Path, *, environ: Mapping[str, str], timeout_s: float
) -> list[Entry]:
    """What a command prints, as entries. It is run by a shell in `folder`, all of its own.

    Raises:
        Unavailable: it failed, took too long or printed without end.
        Invalid: a line is no entry; the text says which.
    """
    out = await _printed(command, folder, environ, timeout_s)
    entries = []
    for number, line in enumerate(out.split(b"\n"), 1):
        if line.strip():
            entries.append(_entry(line, f"`{_short(command)}`, line {number}"))
    if len(entries) > ENTRIES_MAX:
        raise wrong(f"`{_short(command)}`", f"it names {len(entries)}, not at most {ENTRIES_MAX}")
    return entries


def _entry(line: bytes, where: str) -> Entry:
    if len(line) > _LINE_BYTES_MAX:
        raise wrong(where, f"the line is longer than {_LINE_BYTES_MAX} bytes")
    try:
        said = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise wrong(where, f"it is no JSON ({error})") from None
    if isinstance(said, dict) and said.get("description", "") is None:
        # Programs that list issues print this for one without a text.
        said["description"] = ""
    fields = fields_of(said, where, Line)
    assert isinstance(fields, Line)
    if not (fields.id or "").strip():
        raise wrong(where, "id: it is missing: without one it would be added again and again")
    return Entry(
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
            remedy="Raise timeout_s of its backlog, or mend the command.",
        )
    if process.returncode != 0:
        how = f"ended with {process.returncode}"
        raise Unavailable(f"{_of(command)} {how}: {said or 'without a word'}", remedy=_REMEDY)
    if out.is_full:
        raise Unavailable(
            f"{_of(command)} printed more than {SOURCE_BYTES_MAX} bytes.", remedy=_REMEDY
        )
    return out.data


class _Kept:
    """So much of what a stream gives; the rest is read and dropped."""

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
    """End it with all that it started: nobody else would."""
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
