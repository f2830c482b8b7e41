"""Secret tokens that identify an agent or the operator on the socket.

Only digests of the tokens are kept, in a file that only this user can read, so that tokens outlive
the host process but cannot be found there.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.errors import Unavailable, Unreadable
from bullpen.protocol import json_text


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """One agent of one team; without both, the operator: the user of this machine."""

    team: str | None = None
    agent: str | None = None

    @property
    def is_operator(self) -> bool:
        """Return whether it may use all teams of the store."""
        return self.team is None


OPERATOR = TokenIdentity()

Identify = Callable[[str], TokenIdentity | None]
"""Maps a token to its identity, if the token is valid."""


class Identities:
    """The tokens of one host. Each identity has at most one: a new one replaces the old."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int, int], dict[str, TokenIdentity]] | None = None

    def __call__(self, token: str) -> TokenIdentity | None:
        """Return the identity of a token. Raises Unreadable if the file cannot be read."""
        wanted = _digest(token)
        found: TokenIdentity | None = None
        for digest, identity in self._all().items():
            # All are compared, so that timing reveals nothing.
            if hmac.compare_digest(digest, wanted):
                found = identity
        return found

    def mint(self, identity: TokenIdentity) -> str:
        """Create a new token. It cannot be looked up later."""
        token = f"bph_{secrets.token_urlsafe(32)}"
        with self._changing() as held:
            _remove(held, lambda other: other == identity)
            held[_digest(token)] = identity
        return token

    def revoke(self, identity: TokenIdentity) -> bool:
        """Revoke the token of an identity. False if there was none."""
        with self._changing() as held:
            return _remove(held, lambda other: other == identity)

    def revoke_team(self, team: str) -> bool:
        """Revoke all tokens of a team, so that they are useless in a later team of that name."""
        with self._changing() as held:
            return _remove(held, lambda other: other.team == team)

    def all(self) -> list[TokenIdentity]:
        """Return every identity that has a token."""
        return list(self._all().values())

    def _all(self) -> dict[str, TokenIdentity]:
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._read is None or self._read[0] != mark:
                self._read = mark, _held(json_text.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Unreadable(
                str(self._path), str(error), remedy="Delete the file, then start the agents again."
            ) from error
        return self._read[1]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, TokenIdentity]]:
        """Yield the tokens for a change. They are written completely or not at all."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                held = dict(self._all())
                yield held
                if held != self._all():
                    self._write(held)
            finally:
                os.close(lock)
        except OSError as error:
            raise Unavailable(
                f"Tokens cannot be written to {self._path}: {error.strerror or error}.",
                remedy="Fix the cause, then try again.",
            ) from error

    def _write(self, held: dict[str, TokenIdentity]) -> None:
        rows = [
            {"digest": digest, "team": identity.team, "agent": identity.agent}
            for digest, identity in held.items()
        ]
        beside = self._path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(json_text.dumps({"tokens": rows}))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _remove(held: dict[str, TokenIdentity], is_meant: Callable[[TokenIdentity], bool]) -> bool:
    gone = [digest for digest, identity in held.items() if is_meant(identity)]
    for digest in gone:
        del held[digest]
    return bool(gone)


def _held(told: Any) -> dict[str, TokenIdentity]:
    if not isinstance(told, dict):
        raise TypeError("it is not an object")
    held: dict[str, TokenIdentity] = {}
    for row in told["tokens"]:
        team, agent = row["team"], row["agent"]
        bound = isinstance(team, str) and isinstance(agent, str)
        # An incomplete identity is invalid: it must not be taken for the operator.
        if not isinstance(row["digest"], str) or not (bound or team is agent is None):
            raise TypeError("an entry is not a token")
        held[row["digest"]] = TokenIdentity(team, agent)
    return held
