"""A small JSON object that processes of this machine share in a file, changed one after another."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bullpen.errors import Unavailable, Unreadable

LOCK_S = 20.0
"""How long to wait for the others: each holds the file for a moment only."""

_LOCK_EVERY_S = 0.01


class SharedFile:
    """One such file. A kill -9 leaves it as it was before or after a change. It blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def changing(self, wait_s: float = LOCK_S) -> Iterator[dict[str, Any]]:
        """What the file holds, locked. What it is at the end is kept, unless there is an error.

        Raises:
            Unavailable: somebody else holds it all the while, or the disk does not take it.
            Unreadable: it holds something else.
        """
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            name = f"{self.path}.lock"
            lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._wait(lock, time.monotonic() + wait_s)
            kept = self.read()
            before = copy.deepcopy(kept)
            yield kept
            if kept != before:
                with self._told():
                    self._write(kept)
        finally:
            os.close(lock)

    def read(self) -> dict[str, Any]:
        """What the file holds now; nothing if it was never written.

        Raises:
            Unreadable: it holds something else, or may not be read.
        """
        try:
            kept = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from None
        if not isinstance(kept, dict):
            raise self._unreadable("it holds no object")
        return kept

    def _unreadable(self, why: str) -> Unreadable:
        return Unreadable(str(self.path), why, remedy="Remove the file: it is made again.")

    def _wait(self, lock: int, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        f"Another process holds the lock of {self.path} and does not let go.",
                        remedy=f"See which one: fuser {self.path}.lock",
                    ) from None
                time.sleep(_LOCK_EVERY_S)
            else:
                return

    def _write(self, kept: dict[str, Any]) -> None:
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file)
            os.replace(name, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"Cannot keep {self.path}, which the agents of this machine share:"
                f" {error.strerror or error}.",
                remedy="Make its directory writable, and see that the disk is not full.",
            ) from error
