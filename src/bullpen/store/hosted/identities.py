"""Who speaks through the socket: secret tokens, each for one agent or for the operator.

Only digests of the tokens are kept, in a file that this user alone can read, so that tokens
outlive the host process and nobody finds them there.
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
from bullpen.protocol import jsontext


@dataclass(frozen=True, slots=True)
class Identity:
    """One agent of one team; or, without both, the operator: the user of this machine."""

    team: str | None = None
    agent: str | None = None

    @property
    def is_operator(self) -> bool:
        """Whether all teams of the store are open to it."""
        return self.team is None


OPERATOR = Identity()

Identify = Callable[[str], Identity | None]
"""From a token to whom it speaks for, if it is one."""


class Identities:
    """The tokens of one host. Each identity has one at most: a new one ends the old."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int, int], dict[str, Identity]] | None = None

    def __call__(self, token: str) -> Identity | None:
        """For whom a token speaks. Raises Unreadable if the file cannot be read."""
        wanted = _digest(token)
        found: Identity | None = None
        for digest, identity in self._all().items():
            # All are compared, so that the time tells nothing.
            if hmac.compare_digest(digest, wanted):
                found = identity
        return found

    def mint(self, identity: Identity) -> str:
        """A new token, which nobody can look up later."""
        token = f"bph_{secrets.token_urlsafe(32)}"
        with self._changing() as held:
            _remove(held, lambda other: other == identity)
            held[_digest(token)] = identity
        return token

    def revoke(self, identity: Identity) -> bool:
        """Let nobody speak for an identity any more. False if nobody could."""
        with self._changing() as held:
            return _remove(held, lambda other: other == identity)

    def revoke_team(self, team: str) -> bool:
        """The same for all agents of a team: a later team of that name is another one."""
        with self._changing() as held:
            return _remove(held, lambda other: other.team == team)

    def all(self) -> list[Identity]:
        """Everybody who has a token."""
        return list(self._all().values())

    def _all(self) -> dict[str, Identity]:
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._read is None or self._read[0] != mark:
                self._read = mark, _held(jsontext.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Unreadable(
                str(self._path), str(error), remedy="Remove it and start the agents again."
            ) from error
        return self._read[1]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Identity]]:
        """The tokens, to be changed; they are written whole or not at all, one after another."""
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
                f"Tokens cannot be kept in {self._path}: {error.strerror or error}.",
                remedy="Mend the cause and try again.",
            ) from error

    def _write(self, held: dict[str, Identity]) -> None:
        rows = [
            {"digest": digest, "team": identity.team, "agent": identity.agent}
            for digest, identity in held.items()
        ]
        beside = self._path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(jsontext.dumps({"tokens": rows}))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _remove(held: dict[str, Identity], is_meant: Callable[[Identity], bool]) -> bool:
    gone = [digest for digest, identity in held.items() if is_meant(identity)]
    for digest in gone:
        del held[digest]
    return bool(gone)


def _held(told: Any) -> dict[str, Identity]:
    if not isinstance(told, dict):
        raise TypeError("it is no object")
    held: dict[str, Identity] = {}
    for row in told["tokens"]:
        team, agent = row["team"], row["agent"]
        bound = isinstance(team, str) and isinstance(agent, str)
        # Half an identity is none: it must not be taken for the operator.
        if not isinstance(row["digest"], str) or not (bound or team is agent is None):
            raise TypeError("a row is no token")
        held[row["digest"]] = Identity(team, agent)
    return held
