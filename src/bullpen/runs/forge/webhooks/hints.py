"""How a hint gets from the web server to the worker, which is another process of the same home.

If no worker runs, hints wait in a small file; nothing is lost without them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.errors import Unavailable, Unreadable
from bullpen.protocol import json_text
from bullpen.runs.forge.token import forge_folder
from bullpen.runs.forge.webhooks.deliveries import Hint, is_number
from bullpen.runs.reach.home_files import (
    MAKE_WRITABLE,
    locked,
    made_once,
    read_private,
    write_private,
)
from bullpen.workspace.git.ref_names import component

_NUMBERS_MAX = 200
"""How many numbers wait. Then everything is looked at."""

_MARKS_MAX = 4_000
_SECRET_CHARS_MIN = 32


@dataclass(frozen=True, slots=True)
class Hinted:
    """What somebody says has changed."""

    numbers: tuple[int, ...] = ()
    everything: bool = False

    def __bool__(self) -> bool:
        """Return whether there is anything to look at."""
        return bool(self.numbers) or self.everything


class Hints:
    """The hints of one team that nobody has taken yet. All of it blocks."""

    def __init__(self, home: Path, team: str) -> None:
        self._path = _file(home, team, "hints")
        self._seen = _file(home, team, "seen")
        self._lock = _file(home, team, "lock")

    def add(self, hint: Hint) -> bool:
        """Add a hint, unless its delivery was seen before. Returns whether it was added.

        Raises:
            Unavailable: the files cannot be written.
            Unreadable: others can read them.
        """
        try:
            with locked(self._lock):
                marks = self._marks()
                if set(hint.marks) & set(marks):
                    return False
                before = self._waiting()
                numbers = sorted({*before.numbers, *hint.numbers})
                everything = before.everything or hint.everything or len(numbers) > _NUMBERS_MAX
                row = {"numbers": numbers[:_NUMBERS_MAX], "everything": everything}
                write_private(self._path, json_text.dumps_line(row))
                # A kill before this lets a replay count once more, which only costs a look.
                kept = [*marks, *hint.marks][-_MARKS_MAX:]
                write_private(self._seen, json_text.dumps_line({"marks": kept}))
        except OSError as error:
            raise Unavailable(
                f"The hint of a forge cannot be kept: {error}.", remedy=MAKE_WRITABLE
            ) from None
        return True

    def waits(self) -> bool:
        """Return whether there may be a hint."""
        return os.path.lexists(self._path)

    def take(self) -> Hinted:
        """Return what was hinted at, and forget it.

        Raises:
            Unavailable: the files cannot be read or changed.
            Unreadable: others can read them.
        """
        if not self.waits():
            return Hinted()
        try:
            with locked(self._lock):
                found = self._waiting()
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"The hints of a forge cannot be read: {error}.", remedy=MAKE_WRITABLE
            ) from None
        return found

    def _waiting(self) -> Hinted:
        row = _row(self._path)
        if row is None:
            return Hinted()
        numbers = row.get("numbers")
        good = isinstance(numbers, list) and all(is_number(each) for each in numbers)
        if not good:
            # It is damaged: whatever it said, a look at everything includes it.
            return Hinted(everything=True)
        return Hinted(tuple(numbers[:_NUMBERS_MAX]), row.get("everything") is True)  # type: ignore[index]

    def _marks(self) -> Sequence[str]:
        row = _row(self._seen)
        marks = None if row is None else row.get("marks")
        return [each for each in marks if isinstance(each, str)] if isinstance(marks, list) else []


def hook_secret(home: Path, team: str) -> str | None:
    """Return the secret of a team's webhook; None if nobody has made one.

    Raises:
        Unreadable: others can read it, or it is damaged.
    """
    path = _file(home, team, "secret")
    data = read_private(path)
    if data is None:
        return None
    secret = data.decode("ascii", "replace").strip()
    if len(secret) < _SECRET_CHARS_MIN or not secret.isascii():
        raise Unreadable(str(path), "it is no secret", remedy="Run: bullpen forge hook --new")
    return secret


def make_hook_secret(home: Path, team: str, *, new: bool = False) -> str:
    """Return the secret of a team's webhook, which the first call makes. `new` replaces it.

    Raises:
        Unavailable: it cannot be written.
        Unreadable: others can read it, or it is damaged.
    """
    path = _file(home, team, "secret")
    made = secrets.token_urlsafe(32).encode()
    try:
        if new:
            write_private(path, made)
        else:
            made_once(path, made)
    except OSError as error:
        raise Unavailable(
            f"The secret cannot be kept: {path}: {error}.", remedy=MAKE_WRITABLE
        ) from None
    found = hook_secret(home, team)
    if found is None:
        raise Unavailable(f"The secret cannot be kept: {path}.", remedy=MAKE_WRITABLE)
    return found


def _row(path: Path) -> dict[str, Any] | None:
    """Return the object in a private file; None if there is none, an empty one if damaged."""
    data = read_private(path)
    if data is None:
        return None
    try:
        row = json_text.loads(data)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _file(home: Path, team: str, kind: str) -> Path:
    return forge_folder(home) / "hooks" / f"{component(team)}.{kind}"
