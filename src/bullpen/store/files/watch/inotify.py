"""File change notices from Linux inotify: no thread and no polling."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_MODIFY = 0x2
_ATTRIB = 0x4
_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_Q_OVERFLOW = 0x4000
_IGNORED = 0x8000

NEW_NAMES = _CREATE | _MOVED_TO
"""Something was created in a folder."""

ANYTHING = NEW_NAMES | _MODIFY | _ATTRIB | _MOVED_FROM | _DELETE | _DELETE_SELF | _MOVE_SELF
"""Something in a folder changed, or the folder or file itself, including its removal."""

CONTENT = ANYTHING & ~_ATTRIB
"""The same without changes of times and rights, such as those of a lock that is taken."""

GONE = _DELETE_SELF | _MOVE_SELF
"""The watched folder or file itself was removed or renamed."""

_HEADER = struct.Struct("iIII")
_READ_BYTES = 65_536
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class Notice(NamedTuple):
    """Something happened to `name` in a watched folder; without a name, to what is watched.

    After an overflow the kernel does not know what happened: then there is no watch.
    """

    watch: int | None
    name: str


class Inotify:
    """One queue of notices. Raises OSError if the system has none left."""

    def __init__(self) -> None:
        if _calls is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._add, self._remove = _calls.add, _calls.remove
        self.fd = _checked(_calls.init(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, path: str, mask: int) -> int | None:
        """Watch a folder or file. None if it does not exist.

        The watch is on what has that name now: adding it again returns the same number, or another
        one if something else took its place.
        """
        try:
            return _checked(self._add(self.fd, os.fsencode(path), mask), path)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def remove(self, watch: int) -> None:
        """End a watch. Fine if it has already ended because its file is gone."""
        self._remove(self.fd, watch)

    def read(self) -> list[Notice]:
        """Return all available notices, without waiting."""
        notices: list[Notice] = []
        with suppress(BlockingIOError):
            while True:
                notices += _parsed(os.read(self.fd, _READ_BYTES))
        return notices

    def close(self) -> None:
        """Close the queue."""
        os.close(self.fd)


def _parsed(data: bytes) -> list[Notice]:
    notices, at = [], 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
        if mask & _Q_OVERFLOW:
            notices.append(Notice(None, ""))
        elif not mask & _IGNORED:
            notices.append(Notice(watch, name))
    return notices


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result


# ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs. On others, such as network mounts, changes made
# elsewhere are not reported.
_LOCAL = (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1, 0xF2F52010)
_STATFS_BYTES = 512


def reports_all(path: str) -> bool:
    """Return whether every change to the files in a folder is reported, whoever makes it."""
    if _calls is None:
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _calls.statfs(os.fsencode(path), found) != 0:
        return False
    kind: int = ctypes.c_ulong.from_buffer(found).value
    return kind in _LOCAL


class _Calls(NamedTuple):
    init: Callable[[int], int]
    add: Callable[[int, bytes, int], int]
    remove: Callable[[int, int], int]
    statfs: Callable[[bytes, ctypes.Array[ctypes.c_char]], int]


def _load() -> _Calls | None:
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        init, add, remove = libc.inotify_init1, libc.inotify_add_watch, libc.inotify_rm_watch
        statfs = libc.statfs
    except (OSError, AttributeError):
        return None
    init.argtypes = [ctypes.c_int]
    add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    remove.argtypes = [ctypes.c_int, ctypes.c_int]
    statfs.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    return _Calls(init, add, remove, statfs)


_calls = _load()
