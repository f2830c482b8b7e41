"""Bearer tokens, each for one member of one team. Only their digests are stored."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bullpen.errors import Unreadable
from bullpen.protocol import json_text

NAME = "mcp-tokens.json"


@dataclass(frozen=True, slots=True)
class Grant:
    """The member that a token belongs to. `digest` is the token's SHA-256."""

    digest: str
    team: str
    member: str
    made_ms: int


class Tokens:
    """The tokens of one home. A member has at most one; a new token replaces the old one."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME
        self._read: tuple[tuple[int, int, int], list[Grant]] | None = None

    def mint(self, team: str, member: str, *, now_ms: int) -> tuple[str, bool]:
        """Create a token, which is not stored. Returns it, and whether it replaces another."""
        token = f"bp_{secrets.token_urlsafe(32)}"
        with self._changing() as grants:
            replaced = self._without(grants, team, member)
            grants.append(Grant(_digest(token), team, member, now_ms))
        return token, replaced

    def revoke(self, team: str, member: str) -> bool:
        """Revoke the token of a member. False if there was none."""
        with self._changing() as grants:
            return self._without(grants, team, member)

    def all(self) -> list[Grant]:
        """Every valid token, oldest first. Raises Unreadable if the token file cannot be read."""
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._read is None or self._read[0] != mark:
                self._read = mark, _grants(json_text.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Unreadable(
                str(self._path),
                str(error),
                remedy="Repair the file, or delete it and create new tokens.",
            ) from error
        return list(self._read[1])

    def find(self, token: str) -> Grant | None:
        """The grant of a token, if the token is valid."""
        wanted = _digest(token)
        for grant in self.all():
            if hmac.compare_digest(grant.digest, wanted):
                return grant
        return None

    def counts(self, grant: Grant) -> bool:
        """Whether a token that was found earlier is still valid."""
        return grant in self.all()

    def _without(self, grants: list[Grant], team: str, member: str) -> bool:
        kept = [grant for grant in grants if (grant.team, grant.member) != (team, member)]
        gone = len(kept) < len(grants)
        grants[:] = kept
        return gone

    @contextmanager
    def _changing(self) -> Iterator[list[Grant]]:
        """The list of tokens, to change. Changes are serialized and written atomically."""
        home = self._path.parent
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(home / f"{NAME}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            grants = self.all()
            before = list(grants)
            yield grants
            if grants != before:
                self._write(grants)
        finally:
            os.close(lock)

    def _write(self, grants: list[Grant]) -> None:
        beside = self._path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(json_text.dumps({"tokens": [asdict(grant) for grant in grants]}))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _grants(told: object) -> list[Grant]:
    if not isinstance(told, dict):
        raise TypeError("it is not an object")
    grants = [Grant(**row) for row in told["tokens"]]
    if not all(isinstance(grant.digest, str) for grant in grants):
        raise TypeError("a digest is not text")
    return grants
