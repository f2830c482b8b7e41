"""The browsers that a person has subscribed to pushes, and the keys that pushes are signed with."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bullpen.by_name import load
from bullpen.errors import Invalid, Unavailable, Unreadable
from bullpen.protocol import json_text
from bullpen.runs.reach.home_files import (
    FOLDER,
    MAKE_WRITABLE,
    locked,
    made_once,
    read_private,
    write_private,
)

BROWSERS_MAX = 50
"""How many browsers one home may have; the oldest go first."""

_ENDPOINT_MAX = 1_000
_PUBLIC_BYTES = 65
_SECRET_BYTES = 16


@dataclass(frozen=True, slots=True)
class Browser:
    """One subscription: where to push, and the keys that only this browser can read with."""

    team: str
    endpoint: str
    p256dh: str
    auth: str

    @property
    def key(self) -> str:
        """What tells it from others, without its address: whoever has that can push to it."""
        return hashlib.sha256(self.endpoint.encode()).hexdigest()[:16]


def browser_from(team: str, given: Mapping[str, Any]) -> Browser:
    """A subscription as a browser describes it. Raises Invalid."""
    wrong = Invalid("This is no subscription of a browser.", remedy="Load the page again.")
    keys = given.get("keys")
    endpoint = given.get("endpoint")
    if not isinstance(endpoint, str) or not isinstance(keys, Mapping):
        raise wrong
    public, secret = keys.get("p256dh"), keys.get("auth")
    if not isinstance(public, str) or not isinstance(secret, str):
        raise wrong
    plain = endpoint.isascii() and endpoint.isprintable() and len(endpoint) <= _ENDPOINT_MAX
    try:
        parts = urlsplit(endpoint)
        right = parts.scheme == "https" and parts.hostname and not parts.username
    except ValueError:
        raise wrong from None
    if not plain or not right:
        raise wrong
    if len(_decoded(public)) != _PUBLIC_BYTES or len(_decoded(secret)) != _SECRET_BYTES:
        raise wrong
    return Browser(team, endpoint, public, secret)


class Browsers:
    """The subscribed browsers of a home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._path = self._folder / "browsers.json"

    def of(self, team: str) -> list[Browser]:
        """The browsers that want the notices of a team. Raises Unreadable."""
        return [each for each in self._all() if each.team == team]

    def add(self, browser: Browser) -> None:
        """Subscribe a browser to its team. Raises Unreadable, Unavailable."""
        self._change(lambda rows: [*_without(rows, browser), browser][-BROWSERS_MAX:])

    def remove(self, team: str | None, endpoint: str) -> None:
        """Remove a browser from a team, or from all. Raises Unreadable, Unavailable."""
        self._change(
            lambda rows: [
                each
                for each in rows
                if each.endpoint != endpoint or (team is not None and each.team != team)
            ]
        )

    def private_key(self) -> bytes:
        """The key that pushes are signed with, as PEM; the first to ask makes it.

        Raises Unreadable, Unavailable.
        """
        path = self._folder / "vapid.pem"
        try:
            return read_private(path) or made_once(path, _new_key())
        except OSError as error:
            raise Unavailable(
                f"The key of pushes cannot be made: {error}.", remedy=MAKE_WRITABLE
            ) from None

    def public_key(self) -> str:
        """The key that browsers check pushes with. Raises Unreadable, Unavailable."""
        serialization = _cryptography("hazmat.primitives:serialization")
        try:
            key = serialization.load_pem_private_key(self.private_key(), None)
        except ValueError:
            where = str(self._folder / "vapid.pem")
            raise Unreadable(where, "it is no key", remedy="Remove it.") from None
        point = key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        return base64.urlsafe_b64encode(point).decode().rstrip("=")

    def _all(self) -> list[Browser]:
        data = read_private(self._path)
        if data is None:
            return []
        try:
            rows = json_text.loads(data)
            return [Browser(**row) for row in rows]
        except (ValueError, TypeError):
            raise Unreadable(str(self._path), "it is no list of browsers") from None

    def _change(self, change: Callable[[list[Browser]], list[Browser]]) -> None:
        try:
            with locked(self._folder / "browsers.lock"):
                rows = [asdict(each) for each in change(self._all())]
                write_private(self._path, json_text.dumps_line(rows))
        except OSError as error:
            raise Unavailable(
                f"The list of browsers cannot be written: {error}.", remedy=MAKE_WRITABLE
            ) from None


def _without(rows: list[Browser], browser: Browser) -> list[Browser]:
    same = (browser.team, browser.endpoint)
    return [each for each in rows if (each.team, each.endpoint) != same]


def _decoded(text: str) -> bytes:
    """Bytes in base64 for addresses; none if it is not that."""
    try:
        return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except (binascii.Error, ValueError):
        return b""


def _new_key() -> bytes:
    ec = _cryptography("hazmat.primitives.asymmetric:ec")
    serialization = _cryptography("hazmat.primitives:serialization")
    made: bytes = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return made


def _cryptography(name: str) -> Any:
    """A part of the library. Raises Unavailable: its extra is not installed."""
    try:
        return load(f"cryptography.{name}")
    except ModuleNotFoundError:
        raise Unavailable(
            "Pushes need packages that are not installed.",
            remedy="Run: pip install 'bullpen[notify]'",
        ) from None
