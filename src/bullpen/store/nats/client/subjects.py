"""Streams, subjects and keys of a team in NATS. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

_PLAIN = re.compile(r"[a-z0-9-]")
_ESCAPED = re.compile(r"_([0-9a-f]{2})")

PARTITIONS_MAX = 64

OWN_FIRST = 100
"""Partitions from here on hold one team each, for keys that are bound to it."""

DIRECTORY = "TEAMS"
"""The bucket that lists the teams."""

DIRECTORY_STREAM = f"KV_{DIRECTORY}"
CELL_KEY = f"$KV.{DIRECTORY}.cell"
TEAM_KEYS = f"$KV.{DIRECTORY}.team.*"

PRESENCE_STREAM = "PRES"

STARTS_STREAM = "STARTS"
"""The requests for agents, and which host took them."""


def token(name: str) -> str:
    """Return a name as one token of a subject; different names give different tokens.

    Only lower-case letters, digits and `-` stay as they are: tags of credentials, which are
    compared with tokens, have no upper case.
    """
    return "".join(
        char if _PLAIN.fullmatch(char) else "".join(f"_{byte:02x}" for byte in char.encode())
        for char in name
    )


def name_of(text: str) -> str:
    """Return the name that a token stands for."""
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1").decode()


def team_key(team: str) -> str:
    """Return the subject of a team's entry in the directory."""
    return f"$KV.{DIRECTORY}.team.{token(team)}"


def place_key(team: str) -> str:
    """Return the subject that says in which partition a team must be, if in a certain one."""
    return f"$KV.{DIRECTORY}.place.{token(team)}"


def start_key(pool: str, nonce: str) -> str:
    """Return the subject of a request for an agent."""
    return f"start.{pool}.{token(nonce)}"


def stream_of(partition: int) -> str:
    """Return the stream of a partition."""
    return f"TEAM_{partition:02d}"


def partition_for(team: str, partitions: int) -> int:
    """Return the partition of a new team. Stored with the team, which never leaves it."""
    return int.from_bytes(hashlib.sha256(team.encode()).digest()[:4]) % partitions


@dataclass(frozen=True)
class Address:
    """Where one life of a team is. A team that is created again gets another `uid`."""

    team: str
    partition: int
    uid: str

    @cached_property
    def stream(self) -> str:
        """Return the stream that holds it."""
        return stream_of(self.partition)

    @cached_property
    def _within(self) -> str:
        return f"{self.partition:02d}.{token(self.team)}.{self.uid}"

    @cached_property
    def log(self) -> str:
        """Return the subject of all its events."""
        return f"t.{self._within}.log"

    @property
    def sync(self) -> str:
        """Return the subject written only to check whether the log is at a certain message."""
        return f"t.{self._within}.sync"

    @property
    def everything(self) -> str:
        """Return what all its subjects in the stream match."""
        return f"t.{self._within}.>"

    @property
    def news(self) -> str:
        """Return where the server repeats what was stored in the log."""
        return f"w.{self._within}.log"

    @property
    def history(self) -> str:
        """Return the subject of its history blocks."""
        return f"t.{self._within}.history"

    @property
    def begin(self) -> str:
        """Return the subject of the event that its log begins with, if older ones were removed."""
        return f"t.{self._within}.begin"

    @property
    def presence_stream(self) -> str:
        """Return the stream that holds its heartbeats."""
        own = f"{PRESENCE_STREAM}_{self.partition}"
        return own if self.partition >= OWN_FIRST else PRESENCE_STREAM

    @property
    def _heartbeats(self) -> str:
        if self.partition >= OWN_FIRST:
            return f"q.{self._within}"
        return f"p.{token(self.team)}.{self.uid}"

    @property
    def presence(self) -> str:
        """Return what the subjects of its heartbeats match."""
        return f"{self._heartbeats}.>"

    def presence_of(self, host: str, session: str) -> str:
        """Return the subject of the heartbeats that one connection of a host passes on."""
        return f"{self._heartbeats}.{token(host)}.{session}"
