"""A small JSON object in a file that processes of this machine share and change in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bullpen.errors import Unreadable
from bullpen.workspace.git.marks import locked, write_whole

_LOCK_S = 20.0


class SharedFile:
    """One such file. A kill leaves it as it was before or after a change. It blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Yield the object, locked. It is saved at the end, unless there is an error.

        Raises:
            Unavailable: another process holds the lock, or the file cannot be written.
            Unreadable: it does not hold a JSON object.
        """
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(Path(f"{self.path}.lock"), str(self.path), wait_s=_LOCK_S):
            kept = self.read()
            before = json.dumps(kept)
            yield kept
            after = json.dumps(kept)
            if after != before:
                write_whole(self.path, after.encode())

    def read(self) -> dict[str, Any]:
        """Return the object; an empty one if the file does not exist. Raises Unreadable."""
        try:
            kept = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from None
        if not isinstance(kept, dict):
            raise self._unreadable("it does not hold a JSON object")
        return kept

    def _unreadable(self, why: str) -> Unreadable:
        return Unreadable(str(self.path), why, remedy="Delete the file: Bullpen creates it again.")
