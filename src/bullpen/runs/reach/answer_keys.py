"""The key that signs answer links, and the record of the links that were used."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from bullpen.errors import Unavailable, Unreadable
from bullpen.runs.reach.answer_links import KEY_BYTES, AnswerLink
from bullpen.runs.reach.home_files import FOLDER, MAKE_WRITABLE, claim, made_once, remove

_KEPT_MS = 24 * 60 * 60 * 1000
_LOOKED_AT_MAX = 5_000


def answer_key(home: Path) -> bytes:
    """The key of a home, which the first to ask makes. Raises Unreadable, Unavailable."""
    path = home / FOLDER / "answers.key"
    try:
        key = made_once(path, secrets.token_bytes(KEY_BYTES))
    except OSError as error:
        raise Unavailable(
            f"The key of answer links cannot be made: {path}: {error}.", remedy=MAKE_WRITABLE
        ) from None
    if len(key) != KEY_BYTES:
        raise Unreadable(str(path), "it is no key", remedy="Remove it: a new one is made.")
    return key


class UsedLinks:
    """Which links were used, for all processes of a home and after restarts."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER / "used"

    def has(self, link: AnswerLink) -> bool:
        """Whether a link was used."""
        return self._path(link).exists()

    def take(self, link: AnswerLink) -> bool:
        """Use a link. Of several that try, one gets True. Raises Unavailable."""
        try:
            return claim(self._path(link), str(link.expires_ms).encode())
        except OSError as error:
            raise Unavailable(
                f"The use of a link cannot be recorded: {error}.", remedy=MAKE_WRITABLE
            ) from None

    def give_back(self, link: AnswerLink) -> None:
        """Make a link good again: nothing was answered with it."""
        remove(self._path(link))

    def forget(self, now_ms: int) -> None:
        """Remove the records of links that expired long ago."""
        with suppress(OSError):
            for path in sorted(self._folder.iterdir())[:_LOOKED_AT_MAX]:
                with suppress(OSError, ValueError):
                    if int(path.read_text("ascii")) + _KEPT_MS < now_ms:
                        path.unlink()

    def _path(self, link: AnswerLink) -> Path:
        return self._folder / link.number.hex()
