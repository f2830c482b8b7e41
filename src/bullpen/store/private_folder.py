"""Directories that only this user can enter: the home and everything that is created in it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(path: str | os.PathLike[str]) -> None:
    """Create a directory and the missing ones above it, all for this user only. Raises OSError."""
    missing: list[str] = []
    at = os.path.abspath(path)
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, 0o700)


def open_to_others(path: str | os.PathLike[str]) -> int | None:
    """The mode of a directory that other users may enter or read; None if they may not."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    return mode if mode & _OF_OTHERS else None


def narrow(path: str | os.PathLike[str]) -> bool:
    """Close a directory of this user to everybody else. False if it is still open to others."""
    mode = open_to_others(path)
    if mode is None:
        return True
    try:
        # Only our own: root must not change whose directory it is working in.
        if os.stat(path).st_uid == os.geteuid():
            os.chmod(path, mode & ~_OF_OTHERS)
    except OSError:
        return False
    return open_to_others(path) is None
