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


class _Calls(NamedTuple):
    init: Callable[[int], int]
    add: Callable[[int, bytes, int], int]
    remove: Callable[[int, int], int]


def _load() -> _Calls | None:
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        init, add, remove = libc.inotify_init1, libc.inotify_add_watch, libc.inotify_rm_watch
    except (OSError, AttributeError):
        return None
    init.argtypes = [ctypes.c_int]
    add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    remove.argtypes = [ctypes.c_int, ctypes.c_int]
    return _Calls(init, add, remove)


_calls = _load()
