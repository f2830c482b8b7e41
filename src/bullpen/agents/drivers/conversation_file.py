"""The file in which a driver keeps a conversation from one process to the next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bullpen.errors import Unavailable
from bullpen.store.private_folder import make_private

Memory = TypeVar("Memory")

IDS_KEPT = 5_000
"""How many message ids are kept. Older messages are never delivered again."""


def remember(seen: dict[str, None], ids: Iterable[str]) -> None:
    """Add ids to the seen messages, the newest last; drop the oldest."""
    seen.update(dict.fromkeys(ids))
    for known in list(seen)[:-IDS_KEPT]:
        del seen[known]


def load(
    path: Path, parse: Callable[[Mapping[str, Any]], Memory], new: Callable[[], Memory]
) -> tuple[Memory, str | None]:
    """The saved conversation, and what was wrong if the file could not be read."""
    try:
        return parse(json.loads(path.read_bytes())), None
    except FileNotFoundError:
        return new(), None
    except (OSError, ValueError, KeyError, TypeError) as error:
        return new(), f"Could not read {path} ({error}); starting a new conversation."


def save(path: Path, told: Mapping[str, Any]) -> None:
    """Replace the saved conversation. Raises Unavailable if it cannot be written."""
    try:
        write_whole(path, json.dumps(told).encode())
    except OSError as error:
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Check free disk space and the permissions of the directory.",
        ) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file atomically: a crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    make_private(path.parent)
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


def append_line(path: Path, line: bytes, size: int) -> bool:
    """Append a line to a file of this size, durably. False if the file is not what was expected.

    A crash leaves the file as it was, with the line, or with the beginning of the line.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return False
    with os.fdopen(file, "wb") as out:
        if os.fstat(file).st_size != size:
            return False
        out.seek(size)
        out.write(line)
        out.flush()
        os.fsync(file)
    return True
