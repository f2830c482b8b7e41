"""A mirror's own files: how far it is, and a lock that makes it the only one.

They may be lost or outdated: both logs tell the rest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bullpen.errors import Conflict
from bullpen.protocol import json_text, names


@dataclass(slots=True)
class Cursor:
    """How far a mirror is: the last events that it handled, of the home and of the other store.

    `members` are those whose earlier mail was fetched when they started to live here.
    """

    mirror: str
    near: int = 0
    far: int = 0
    members: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: Any) -> Cursor:
        """Parse a stored cursor. Raises ValueError, KeyError or TypeError."""
        near, far, members = raw["near"], raw["far"], raw["members"]
        if not all(type(number) is int and number >= 0 for number in (near, far)):
            raise ValueError("a position is not a number")
        if not all(isinstance(name, str) for name in members):
            raise ValueError("a member is not a name")
        return cls(str(raw["mirror"]), near, far, list(members))


class MirrorState:
    """The files of the mirror of one team in one home."""

    def __init__(self, home: Path, team: str) -> None:
        names.check_component(team, kind="team name")
        self.home, self._team = home, team
        self._folder = home / ".bullpen" / "mirrors"
        self._cursor = self._folder / f"{team}.json"
        self._lock = self._folder / f"{team}.lock"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only mirror of this team in this home. Raises Conflict if another process is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
                raise Conflict(
                    f"Process {holder} already mirrors team {self._team!r} into {self.home}.",
                    remedy="Stop it first, or mirror into another directory.",
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(fd)

    def load(self, mirror: str) -> Cursor | None:
        """Return the last stored cursor; None if this mirror has no readable one."""
        try:
            cursor = Cursor.parse(json_text.loads(self._cursor.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return cursor if cursor.mirror == mirror else None

    def save(self, cursor: Cursor) -> None:
        """Store the cursor."""
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._cursor.with_suffix(f".{os.getpid()}.tmp")
        try:
            beside.write_bytes(json_text.dumps_line(asdict(cursor)))
            os.replace(beside, self._cursor)
        except OSError:
            # It is only outdated then. A full disk must not stop what needs no disk here.
            with suppress(OSError):
                beside.unlink()
