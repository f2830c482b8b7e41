"""Every system call that changes the disk, in one place.

Tests replace it with a disk that stops or fails at step n, for every n.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Callable

from bullpen.errors import Unreadable
from bullpen.store.private_folder import make_private

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2

_counter = itertools.count()
_origin = (0, "")


class Disk:
    """Durable operations. With `fsync=False` they survive a killed process, but not a power cut."""

    def __init__(self, *, fsync: bool = True) -> None:
        self.fsync = fsync

    def step(self, what: str, path: str) -> None:
        """Called before every change; tests make it fail."""

    def write_new(self, path: str, data: bytes) -> None:
        """Write a new file and sync it."""
        self.step("create", path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self.write(fd, data, path)
            self.sync(fd, path)
        finally:
            os.close(fd)

    def create_whole(self, path: str, data: bytes, *, nonce: str) -> None:
        """Create a file with all its content at once, unless it exists."""
        temp = temp_of(path, nonce)
        self.write_new(temp, data)
        self.step("link", path)
        try:
            os.link(temp, path)
        except FileExistsError:
            pass
        finally:
            self.unlink(temp)

    def write(self, fd: int, data: bytes, path: str) -> None:
        """Write all of `data` at the descriptor's position."""
        self.step("write", path)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def write_at(self, fd: int, data: bytes, offset: int, path: str) -> None:
        """Write all of `data` at `offset`."""
        self.step("write", path)
        while data:
            done = os.pwrite(fd, data, offset)
            data, offset = data[done:], offset + done

    def truncate(self, fd: int, size: int, path: str) -> None:
        """Truncate a file to `size`."""
        self.step("truncate", path)
        os.ftruncate(fd, size)

    def sync(self, fd: int, path: str) -> None:
        """Make a file's content durable."""
        if self.fsync:
            self.step("fsync", path)
            os.fsync(fd)

    def sync_dir(self, path: str) -> None:
        """Make a directory's entries durable."""
        if self.fsync and os.name == "posix":
            self.step("fsync", path)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory. An existing file with that name is replaced."""
        self.step("rename", new)
        os.replace(old, new)

    def exchange(self, one: str, other: str) -> bool:
        """Swap two names in one step. False if the system or file system cannot do it."""
        return self._renameat2("exchange", one, other, _RENAME_EXCHANGE)

    def rename_new(self, old: str, new: str) -> bool:
        """Rename to a free name, or raise FileExistsError. False if the system cannot do it."""
        return self._renameat2("rename", old, new, _RENAME_NOREPLACE)

    def _renameat2(self, what: str, old: str, new: str, flag: int) -> bool:
        if _renameat2 is None:
            return False
        self.step(what, new)
        if _renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flag) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            return False
        raise OSError(code, os.strerror(code), new)

    def unlink(self, path: str) -> None:
        """Remove a file if it exists."""
        self.step("unlink", path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """Create a new directory."""
        self.step("mkdir", path)
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory if it exists."""
        self.step("rmdir", path)
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def ensure_dir(self, path: str) -> None:
        """Create a directory if it does not exist."""
        if not os.path.isdir(path):
            self.step("mkdir", path)
            make_private(path)

    def replace(self, path: str, data: bytes, *, nonce: str) -> None:
        """Replace a file so that readers see the old or the new content, never a mix.

        It is durable after `sync_dir` of its directory.
        """
        temp = temp_of(path, nonce)
        self.write_new(temp, data)
        self.rename(temp, path)


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, or raise Unreadable. Links are not followed, and pipes do not block."""
    return _opened(path, flags)[0]


def _opened(path: str, flags: int) -> tuple[int, os.stat_result]:
    try:
        fd = os.open(path, flags | _NO_LINKS | _NO_WAIT, 0o600)
    except BlockingIOError:
        # Another process holds a lease on it for a moment. Only regular files have leases.
        fd = os.open(path, flags | _NO_LINKS, 0o600)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise not_a_file(path) from None
        raise
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise not_a_file(path)
    return fd, status


_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def not_a_file(path: str) -> Unreadable:
    """Return the error for a folder, link, pipe or device where a file should be."""
    return Unreadable(path, "it is not a regular file")


def list_folder(path: str) -> list[str]:
    """Return the names in a folder; none if it does not exist. Raises Unreadable."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise Unreadable(path, "it is not a folder") from None


def read_bytes(path: str, start: int = 0) -> bytes:
    """Return a file's content from byte `start` on, as of one moment."""
    return read_with_status(path, start)[1]


def read_with_status(path: str, start: int = 0) -> tuple[os.stat_result, bytes]:
    """Return a file's status and its content from byte `start` on."""
    fd, status = _opened(path, os.O_RDONLY)
    try:
        size = status.st_size - start
        data = os.pread(fd, size + 1, start)
        while len(data) > size and (more := os.pread(fd, 1 << 20, start + len(data))):
            data += more
        return status, data
    finally:
        os.close(fd)


def nonce() -> str:
    """A short text that no other call, process or fork gives."""
    global _origin
    if _origin[0] != os.getpid():
        _origin = (os.getpid(), secrets.token_hex(4))
    return f"{_origin[1]}-{next(_counter):x}"


def temp_of(path: str, nonce: str) -> str:
    """Return where the next content of `path` is written: a name that no reader looks for."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{nonce}.bullpen-tmp")


TEMP_SUFFIX = ".bullpen-tmp"


def _load_renameat2() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_int
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]
    return function


_renameat2 = _load_renameat2()
