"""What a driver keeps of a conversation from one process to the next: in a file, written whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

IDS_KEPT = 5_000
"""How many messages are remembered: the mail of older ones is long settled."""


def remember(seen: dict[str, None], ids: Iterable[str]) -> None:
    """Add messages to those that were seen, the newest last; the oldest are forgotten."""
    seen.update(dict.fromkeys(ids))
    for known in list(seen)[:-IDS_KEPT]:
        del seen[known]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of this user alone in one step: a crash leaves the old one or the new one.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
