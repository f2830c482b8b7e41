"""Private files of the home, for keys and for what was used or sent."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.errors import Unreadable
from bullpen.store.files.disk import Disk
from bullpen.store.private_folder import make_private

FOLDER = "reach"
"""The folder in the home."""

MAKE_WRITABLE = "Make the home writable."
"""What to do if a file of it cannot be written."""

_OTHERS = 0o077
_BYTES_MAX = 4 * 1024 * 1024
_disk = Disk()


def read_private(path: Path) -> bytes | None:
    """The content of a private file; None if there is none.

    Raises Unreadable: it is a link or no file, belongs to another user, others can read it, or it
    is too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(str(path), error.strerror or "it cannot be opened") from None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(str(path), "it is not a file")
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
            raise Unreadable(
                str(path),
                "others can read it",
                remedy=f"If nobody has read it, run: chmod 600 {path}. Otherwise remove it.",
            )
        data = file.read(_BYTES_MAX + 1)
    if len(data) > _BYTES_MAX:
        raise Unreadable(str(path), "it is too long")
    return data


def write_private(path: Path, data: bytes) -> None:
    """Write a private file: a reader finds the old or the new one. Raises OSError."""
    make_private(path.parent)
    _disk.replace(str(path), data, nonce=secrets.token_hex(4))
    _disk.sync_dir(str(path.parent))


def made_once(path: Path, data: bytes) -> bytes:
    """The content of a private file, which is made with this content unless there is one.

    Raises OSError, and Unreadable as `read_private`.
    """
    found = read_private(path)
    if found is None:
        make_private(path.parent)
        # If another process was faster, its file counts.
        _disk.create_whole(str(path), data, nonce=secrets.token_hex(4))
        _disk.sync_dir(str(path.parent))
        found = read_private(path)
    return data if found is None else found


def claim(path: Path, data: bytes) -> bool:
    """Make a file that nobody has made before. False if somebody has. Raises OSError."""
    make_private(path.parent)
    try:
        _disk.write_new(str(path), data)
    except FileExistsError:
        return False
    _disk.sync_dir(str(path.parent))
    return True


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock, which ends with the process; False if another one has it. Raises OSError."""
    make_private(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
