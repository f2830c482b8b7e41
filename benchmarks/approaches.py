"""The other ways to change a JSON file that several processes share.

*Peer*: use a directory as a lock, parse, change, dump, write in place. *Rewrite done right*: the
same with a lock that the kernel releases, and a temporary file that is renamed. *Bare*: only the
system calls that write the bytes, with nothing read, parsed or locked.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Change = Callable[[Any], None]

STALE_S = 10.0
_PAUSES_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1, 0.1, 0.1)


class GaveUp(Exception):
    """Another process held the lock at every attempt."""


@contextmanager
def mkdir_lock(path: str, *, patient: bool = False) -> Iterator[None]:
    """Hold the directory `path.lock`. Gives up after 0.7 s, as peers do, unless `patient`."""
    lock = f"{path}.lock"
    pauses = list(_PAUSES_S)
    while True:
        try:
            os.mkdir(lock)
            break
        except FileExistsError:
            pass
        with suppress(FileNotFoundError):
            if time.time() - os.stat(lock).st_mtime > STALE_S:
                os.rmdir(lock)
                continue
        if not pauses:
            if not patient:
                raise GaveUp(lock)
            pauses.append(0.1)
        time.sleep(pauses.pop(0))
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.rmdir(lock)


@contextmanager
def flocked(path: str) -> Iterator[None]:
    """Hold `path.flock`, which the kernel releases when its holder dies."""
    fd = os.open(f"{path}.flock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def write_in_place(path: str, text: str, *, fsync: bool) -> None:
    """Write in place, so that a reader can see a partial file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        if fsync:
            file.flush()
            os.fsync(file.fileno())


def replace(path: str, data: bytes, *, fsync: bool) -> None:
    """Write a temporary file and rename it; with `fsync` of the file and its folder."""
    temp = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, data)
        if fsync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temp, path)
    if fsync:
        sync_folder(os.path.dirname(path))


def append(path: str, data: bytes, *, fsync: bool) -> None:
    """Append to a file; with `fsync` durably."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, data)
        if fsync:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Make a folder's entries durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def load(path: str) -> Any:
    """The value of a JSON file."""
    with open(path, encoding="utf-8") as file:
        return json.loads(file.read())


def peer_update(path: str, change: Change, *, fsync: bool, patient: bool = False) -> None:
    """Change a file as the peers do."""
    with mkdir_lock(path, patient=patient):
        value = load(path)
        change(value)
        write_in_place(path, json.dumps(value, indent=2), fsync=fsync)


def rewrite_update(path: str, change: Change, *, fsync: bool) -> None:
    """Change a file by rewriting it safely."""
    with flocked(path):
        value = load(path)
        change(value)
        replace(path, json.dumps(value, indent=2).encode(), fsync=fsync)
