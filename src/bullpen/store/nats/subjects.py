"""Where everything about a team lies in NATS: streams, subjects, keys. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

_PLAIN = re.compile(r"[a-z0-9-]")
_ESCAPED = re.compile(r"_([0-9a-f]{2})")

PARTITIONS_MAX = 64

DIRECTORY = "TEAMS"
"""The bucket that says which teams there are."""

DIRECTORY_STREAM = f"KV_{DIRECTORY}"
CELL_KEY = f"$KV.{DIRECTORY}.cell"
TEAM_KEYS = f"$KV.{DIRECTORY}.team.*"

PRESENCE_STREAM = "PRES"


def token(name: str) -> str:
    """A name as one token of a subject; different names give different tokens.

    Only lower-case letters, digits and `-` stay as they are: the tags of credentials, which are
    compared with tokens, know no upper case.
    """
    return "".join(
        char if _PLAIN.fullmatch(char) else "".join(f"_{byte:02x}" for byte in char.encode())
        for char in name
    )


def name_of(text: str) -> str:
    """The name that a token stands for."""
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1").decode()


def team_key(team: str) -> str:
    """The subject of a team's entry in the directory."""
    return f"$KV.{DIRECTORY}.team.{token(team)}"


def stream_of(partition: int) -> str:
    """The stream of a partition."""
    return f"TEAM_{partition:02d}"


def partition_for(team: str, partitions: int) -> int:
    """Where a new team goes. Stored with the team: it never moves, however many there will be."""
    return int.from_bytes(hashlib.sha256(team.encode()).digest()[:4]) % partitions


@dataclass(frozen=True)
class Address:
    """Where one life of a team is. A team that is made again gets another `uid`."""

    team: str
    partition: int
    uid: str

    @property
    def stream(self) -> str:
        """The stream that holds it."""
        return stream_of(self.partition)

    @cached_property
    def _within(self) -> str:
        return f"{self.partition:02d}.{token(self.team)}.{self.uid}"

    @cached_property
    def log(self) -> str:
        """The subject of all its events."""
        return f"t.{self._within}.log"

    @property
    def sync(self) -> str:
        """The subject written to only to learn whether the log is at a certain message."""
        return f"t.{self._within}.sync"

    @property
    def everything(self) -> str:
        """What all its subjects in the stream match."""
        return f"t.{self._within}.>"

    @property
    def news(self) -> str:
        """Where the server repeats what was stored in the log."""
        return f"w.{self._within}.log"

    @property
    def history(self) -> str:
        """The subject of the parts of its history, one after another."""
        return f"t.{self._within}.history"

    @property
    def presence(self) -> str:
        """What the subjects of its heartbeats match."""
        return f"p.{token(self.team)}.{self.uid}.>"

    def presence_of(self, host: str, session: str) -> str:
        """The subject of the heartbeats that one connection of a host passes on."""
        return f"p.{token(self.team)}.{self.uid}.{token(host)}.{session}"
