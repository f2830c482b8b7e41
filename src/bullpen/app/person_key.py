"""The key of the person who owns a home: what a person can show and a sandboxed agent cannot.

The key is a file of the home that only its user can read, made when a person first acts. A sandbox
hides the home, and no agent gets the key in its environment. An agent without a sandbox runs as the
same user and could read the file, so the key alone proves nothing: a process of an agent is refused
before its key is looked at.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bullpen.agents.contracts.backend import PERSON_KEY
from bullpen.errors import Refused
from bullpen.store.private_folder import make_private

_FILE = "person.key"
_PREFIX = "bpp_"


def show_key(home: Path, environ: Mapping[str, str]) -> None:
    """Check that this process has the key of a home's person; the first to ask makes it.

    BULLPEN_PERSON_KEY can hold the key for automation. It must be the key of the home, and becomes
    the key of a home that has none.

    Raises:
        Refused: it does not have the key (not_a_person).
    """
    given = environ.get(PERSON_KEY)
    try:
        key = _read(home) or _make(home, given or f"{_PREFIX}{secrets.token_urlsafe(32)}")
    except OSError as error:
        raise Refused(
            f"The key that proves that you are a person cannot be read: {home / _FILE}:"
            f" {error.strerror}.",
            reason="not_a_person",
            remedy="Run the command as the user who owns the home, outside of any sandbox.",
        ) from None
    if given and not hmac.compare_digest(given.encode(), key.encode()):
        raise Refused(
            f"{PERSON_KEY} is not the key of this home.",
            reason="not_a_person",
            remedy=f"Unset {PERSON_KEY}, or set it to the content of {home / _FILE}.",
        )


def _read(home: Path) -> str | None:
    try:
        return (home / _FILE).read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


def _make(home: Path, key: str) -> str:
    """Make the key of a home; if another process was faster, its key counts."""
    make_private(home)
    fresh = home / f".{_FILE}.{os.getpid()}"
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"{key}\n")
        with suppress(FileExistsError):
            os.link(fresh, home / _FILE)
    finally:
        fresh.unlink(missing_ok=True)
    return _read(home) or key
