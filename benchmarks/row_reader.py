"""Row 7: a reader that takes no lock, beside a writer that never pauses."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from approaches import peer_update, replace, rewrite_update
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from counts import Counts
from crowd import Start, together
from figures import Figure, Row, none_at_all
from scenery import (
    READER,
    TEAM,
    inbox_path,
    inbox_text,
    make_inbox,
    message,
    plain_inbox,
)

_ROUND = 200


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """Torn reads of ours and of the others."""
    home = folder / "ours"
    store = await make_inbox(home, 0)
    await store.aclose()
    mine = _torn("ours", home, str(inbox_path(home)), counts.reading_s)
    columns = [
        _torn(name, folder, plain_inbox(folder / name, 0), counts.peer_reading_s)
        for name in ("peer", "rewrite")
    ]
    work = "a reader without a lock, one writer, torn reads"
    return [Row(7, work, mine, none_at_all(mine), columns)]


def _torn(approach: str, home: Path, path: str, reading_s: float) -> Figure:
    done = together(2, writer_or_reader, approach, home, path, reading_s)
    reads, torn = done.results[1]
    sent, _ = done.results[0]
    return Figure(torn / reads * 1e6, "per million", f"{torn} of {reads:,}, {sent:,} sends")


def writer_or_reader(
    index: int, start: Start, approach: str, home: Path, path: str, for_s: float
) -> tuple[int, int]:
    """The first worker writes, the second reads."""
    if index == 0:
        return write(start, approach, home, path, for_s)
    return read(start, path, for_s)


def write(start: Start, approach: str, home: Path, path: str, for_s: float) -> tuple[int, int]:
    """Send the same messages repeatedly, each round into an empty inbox."""
    letters = [message(number) for number in range(1, _ROUND + 1)]

    async def run() -> tuple[int, int]:
        store = FileStore(home, fsync=False)
        start()
        sent, deadline = 0, time.monotonic() + for_s
        while time.monotonic() < deadline:
            letter = letters[sent % _ROUND]
            if sent % _ROUND == 0:
                replace(path, b"[]", fsync=False)
            if approach == "ours":
                await store.append(TEAM, READER, letter, actor=LEAD, fresh=True)
            else:
                update = peer_update if approach == "peer" else rewrite_update
                update(path, partial(_append, letter), fsync=False)
            sent += 1
        await store.aclose()
        return sent, 0

    return anyio.run(run)


def _append(letter: Message, rows: list[Any]) -> None:
    rows.append(letter.raw)


def read(start: Start, path: str, for_s: float) -> tuple[int, int]:
    """Count the reads, and those that were not the inbox at any moment.

    The order of messages is known, so most reads need only a comparison of bytes.
    """
    rows = [message(number).raw for number in range(1, _ROUND + 1)]
    whole = inbox_text([message(number) for number in range(1, _ROUND + 1)])
    start()
    reads = torn = 0
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        for _ in range(100):
            fd = os.open(path, os.O_RDONLY)
            data = os.read(fd, 1 << 20)
            os.close(fd)
            reads += 1
            body = len(data) - 2
            like = data.endswith(b"\n  }\n]") and whole.startswith(data[:body])
            torn += not (like or data == b"[]" or _is_prefix(data, rows))
    return reads, torn


def _is_prefix(data: bytes, rows: list[dict[str, object]]) -> bool:
    try:
        found = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, list) and found == rows[: len(found)]
