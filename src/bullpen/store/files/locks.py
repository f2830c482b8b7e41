"""The two locks that every write takes.

The *team lock* is Bullpen's own: a `flock` on `.bullpen/head`. The kernel queues its waiters and
frees it when its holder dies. The *file locks* are Claude Code's: a directory `FILE.lock` created
by `mkdir`. Bullpen writers hold the team lock before they create one, so they contend for it only
with other programs.

Bullpen's file locks have mode 0600, which no other program uses (Node's `mkdir` asks for 0777, so
the owner's bits are always 7). A process that holds the team lock and finds a directory with mode
0600 knows that a Bullpen process died holding it, and takes it immediately. The directory stays
empty, because Claude Code removes it with `rmdir`. Its owner may write to it, because only a
writable directory can be moved to another folder.
"""

from __future__ import annotations

import functools
import os
import random
import stat
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from bullpen.errors import Unavailable
from bullpen.store.files.disk import Disk, open_file, read_bytes
from bullpen.store.record_checks import no_team

STALE_S = 10.0
"""A foreign lock that was not refreshed for this long is dead. Claude Code uses the same value."""

REFRESH_S = 2.0
OUR_MODE = 0o600

_SETTLE_S = 0.05
"""How long a stale lock that Bullpen broke stays free before Bullpen creates its own."""

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _try_flock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait_flock(fd: int) -> None:
        while not _try_flock(fd):
            time.sleep(0.005)

    def _unflock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_flock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_flock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)

    def _unflock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


class TeamLock:
    """The team lock. One per store and team; threads of one process also queue on it."""

    def __init__(self, path: str, team: str) -> None:
        self._path, self._team = path, team
        self._threads = threading.Lock()
        self._fd, self._flags = -1, 0
        self._fds: set[int] = set()
        _all_locks.add(self)

    @contextmanager
    def held(self, wait_s: float, *, read_only: bool = False) -> Iterator[int]:
        """Hold the lock; yields the descriptor of the locked file. Raises Unavailable, NotFound.

        With `read_only`, the file is only opened for reading, and must exist.
        """
        deadline = time.monotonic() + wait_s
        threads = self._threads
        if not threads.acquire(timeout=wait_s):
            raise self._busy(wait_s)
        try:
            self._lock(deadline, wait_s, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
            try:
                yield self._fd
            finally:
                if self._fd >= 0:  # Not in a child that was forked meanwhile.
                    _unflock(self._fd)
        finally:
            threads.release()

    def _lock(self, deadline: float, wait_s: float, flags: int) -> None:
        while True:
            self._open(flags)
            if not _try_flock(self._fd) and not self._queue(deadline):
                raise self._busy(wait_s)
            try:
                current = os.stat(self._path)
            except FileNotFoundError:
                current = None
            mine = os.fstat(self._fd)
            if current and (current.st_ino, current.st_dev) == (mine.st_ino, mine.st_dev):
                return
            # The team was deleted, and perhaps created again, while this process waited on the old
            # file.
            self._close()

    def _open(self, flags: int) -> None:
        if self._fd >= 0 and self._flags != flags:
            self._close()
        if self._fd >= 0:
            return
        self._flags = flags
        try:
            self._fd = open_file(self._path, flags)
        except (FileNotFoundError, NotADirectoryError):
            raise no_team(self._team) from None
        self._fds.add(self._fd)

    def _queue(self, deadline: float) -> bool:
        """Wait in the kernel's queue, but not past the deadline.

        flock has no timeout, so a thread waits. If it gets the lock too late, it releases it.
        """
        fd = os.dup(self._fd)
        self._fds.add(fd)
        guard = threading.Lock()
        arrived = threading.Event()
        gave_up = False

        def wait() -> None:
            try:
                _wait_flock(fd)
                with guard:
                    if gave_up:
                        _unflock(fd)
                    arrived.set()
            finally:
                self._fds.discard(fd)
                os.close(fd)

        threading.Thread(target=wait, daemon=True, name="bullpen-lock").start()
        if arrived.wait(max(0.0, deadline - time.monotonic())):
            return True
        with guard:
            if arrived.is_set():
                return True
            gave_up = True
        # The waiting thread shares this open file: never lock through this descriptor again.
        self._close()
        return False

    def _busy(self, wait_s: float) -> Unavailable:
        return Unavailable(
            f"Team {self._team!r} is busy: its lock {self._path} was held for {wait_s:g} s by "
            f"{holder(self._path)}.",
            remedy="Try again. If that process hangs, stop it.",
        )

    def close(self) -> None:
        """Close the file, as soon as no thread uses it. The caller must not hold the lock."""
        with self._threads:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            self._fds.discard(self._fd)
            os.close(self._fd)
        self._fd = -1

    def forget(self) -> None:
        """Release the parent's lock in a forked child.

        The lock belongs to the open file, which parent and child share. While the child has it
        open, a killed parent would keep its lock.
        """
        for fd in self._fds:
            os.close(fd)
        self._fds = set()
        self._fd = -1
        self._threads = threading.Lock()


_all_locks: weakref.WeakSet[TeamLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_all_locks):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


OWNER_AT = 256
"""Where in the head file the holder of the lock is recorded."""


@functools.lru_cache(maxsize=1)
def owner_record(pid: int) -> bytes:
    """Return who holds the lock, for error messages and for `doctor`."""
    program = os.path.basename(sys.argv[0]) or "python"
    return f"pid {pid} ({program})".encode("utf-8", "replace")[:200].ljust(256)


def take_note(head_fd: int) -> bool:
    """Record in the head who holds the lock. Returns whether the last holder died with it."""
    died = os.pread(head_fd, 1, OWNER_AT) == b"p"
    os.pwrite(head_fd, owner_record(os.getpid()), OWNER_AT)
    return died


def strike_out(head_fd: int) -> None:
    """Record in the head that the holder released the lock itself."""
    os.pwrite(head_fd, b"-", OWNER_AT)


def holder(path: str) -> str:
    """Return a description of the last process that took the team lock."""
    try:
        record = read_bytes(path, OWNER_AT)[:256].decode("utf-8", "replace").strip(" \0\n")
    except (OSError, Unavailable):
        record = ""
    return record or "an unknown process"


_Mark: TypeAlias = tuple[int, int]


def _mark(found: os.stat_result) -> _Mark:
    """Return what tells a lock from its successor, which often has the same inode number."""
    return (found.st_ino, found.st_mtime_ns)


def _is_there(path: str, mark: _Mark) -> bool:
    try:
        return _mark(os.lstat(path)) == mark
    except FileNotFoundError:
        return False


class FileLocks:
    """Claude Code's locks on some files, taken in the given order and held together.

    Creating and removing a lock directory each time costs an inode. So spare ones are kept in a
    folder, renamed to the lock's name while it is held, and renamed back. If the system cannot
    rename to a free name only, the directory is created and removed.
    """

    def __init__(self, disk: Disk, spares: str, wait_s: float) -> None:
        self._disk, self._spares, self._wait_s = disk, spares, wait_s
        self._held: list[tuple[str, _Mark]] = []
        self._since = 0.0

    @contextmanager
    def held(self, files: Sequence[str]) -> Iterator[FileLocks]:
        """Hold `FILE.lock` for every file. The caller holds the team lock."""
        deadline = time.monotonic() + self._wait_s
        try:
            for file in files:
                path = f"{file}.lock"
                self._held.append((path, self._take(path, deadline)))
            self._since = time.monotonic()
            yield self
        finally:
            self._release()

    def _take(self, path: str, deadline: float) -> _Mark:
        pause_s = 0.005
        while True:
            try:
                self._place(path)
                return _mark(os.lstat(path))
            except FileExistsError:
                pass
            except FileNotFoundError:
                self._disk.ensure_dir(os.path.dirname(path))
                continue
            if break_if_dead(path, self._disk):
                continue
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"Another program holds the lock {path}.",
                    remedy="Try again. A lock that is not refreshed is taken over after 10 s.",
                )
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 1.5, 0.05)

    def _place(self, path: str) -> None:
        """Create a lock directory. Raises FileExistsError if there is one."""
        spare = self._spare(len(self._held))
        try:
            os.utime(spare)
        except FileNotFoundError:
            self._disk.ensure_dir(self._spares)
            self._disk.mkdir(spare, OUR_MODE)
        if not self._disk.rename_new(spare, path):
            self._disk.mkdir(path, OUR_MODE)

    def _spare(self, index: int) -> str:
        # The team lock is held: nobody else uses these names now.
        return os.path.join(self._spares, f"{index}.lock")

    def refresh(self) -> None:
        """Refresh the locks before they look stale, and check that they are still held.

        Called before each file is put in place. It costs nothing while the locks are young. Raises
        Unavailable if another program took one of them while this process was suspended.
        """
        if time.monotonic() - self._since < REFRESH_S:
            return
        for index, (path, mark) in enumerate(self._held):
            if not _is_there(path, mark):
                raise Unavailable(
                    f"Another program took the lock {path} while this process was suspended.",
                    remedy="Try again.",
                )
            os.utime(path)
            self._held[index] = (path, _mark(os.lstat(path)))
        self._since = time.monotonic()

    def _release(self) -> None:
        for index, (path, mark) in reversed(list(enumerate(self._held))):
            try:
                if _is_there(path, mark):
                    self._disk.rename(path, self._spare(index))
            except OSError:
                # It is gone, or somebody put a file into it. Doctor reports it.
                continue
        self._held.clear()


def sweep(folders: Sequence[str], disk: Disk) -> None:
    """Remove file locks left by dead Bullpen processes. The caller holds the team lock."""
    for folder in folders:
        with suppress(FileNotFoundError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if name.endswith(".lock") and is_ours(os.lstat(path)):
                    break_if_dead(path, disk)


def is_ours(found: os.stat_result) -> bool:
    """Return whether Bullpen created a lock."""
    return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o700 == OUR_MODE


def break_if_dead(path: str, disk: Disk) -> bool:
    """Remove a dead holder's lock. True if it is gone. The caller holds the team lock."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    age_s = time.time() - found.st_mtime
    if not is_ours(found) and age_s < STALE_S:
        return False
    # A rename has one winner; stat and rmdir could remove somebody else's new lock.
    aside = f"{path}.{os.getpid()}-{time.monotonic_ns()}"
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return True
    if not _is_there(aside, _mark(found)):
        try:
            os.rename(aside, path)
        except OSError:
            disk.rmdir(aside)
        return False
    with suppress(OSError):  # Somebody put a file into it: the lock is free, the rest can stay.
        disk.rmdir(aside) if stat.S_ISDIR(found.st_mode) else disk.unlink(aside)
    if age_s > STALE_S - 1:
        # Another program may also have found it dead, and be about to remove what is there now.
        time.sleep(_SETTLE_S)
    return True
