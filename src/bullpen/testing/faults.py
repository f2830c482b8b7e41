"""Disks that count their steps, kill the process at one of them, or fail at one of them."""

from __future__ import annotations

import errno
import os
import signal

from bullpen.store.files.disk import Disk


class CountingDisk(Disk):
    """Counts the steps of an operation, so that a test can break each of them."""

    def __init__(self) -> None:
        super().__init__(fsync=True)
        self.steps: list[str] = []

    def step(self, what: str, path: str) -> None:
        self.steps.append(f"{what} {os.path.basename(path)}")


class DyingDisk(CountingDisk):
    """Kills the process with -9 before its n-th step; `torn` lets half of a write through."""

    def __init__(self, n: int, *, torn: bool = False) -> None:
        super().__init__()
        self._n, self._torn = n, torn

    def step(self, what: str, path: str) -> None:
        super().step(what, path)
        if len(self.steps) == self._n and not (self._torn and what == "write"):
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, fd: int, data: bytes, path: str) -> None:
        super().write(fd, self._half(data), path)
        self._die_if_due()

    def write_at(self, fd: int, data: bytes, offset: int, path: str) -> None:
        super().write_at(fd, self._half(data), offset, path)
        self._die_if_due()

    def _half(self, data: bytes) -> bytes:
        return data[: len(data) // 2] if len(self.steps) + 1 == self._n else data

    def _die_if_due(self) -> None:
        if len(self.steps) == self._n:
            os.kill(os.getpid(), signal.SIGKILL)


class FailingDisk(CountingDisk):
    """Fails at its n-th step, and with `forever` at every later one too, like a full disk."""

    def __init__(self, n: int, *, forever: bool = False) -> None:
        super().__init__()
        self._n, self._forever = n, forever

    def step(self, what: str, path: str) -> None:
        super().step(what, path)
        due = len(self.steps) >= self._n if self._forever else len(self.steps) == self._n
        # A full disk still allows deleting.
        if due and what not in ("rmdir", "unlink", "rename", "exchange", "truncate"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
