"""What hosts say of themselves, what is asked of them, and who of them is to act. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from bullpen.errors import Invalid
from bullpen.protocol.wire import Wire


@dataclass(frozen=True, slots=True)
class HostPace:
    """The times hosts live by. All follow from one that the servers keep: when they forget a
    heartbeat, which is when a host is lost.
    """

    ttl_s: float = 30.0

    @property
    def beat_s(self) -> float:
        """How often a host says that it is there, and looks who else is."""
        return self.ttl_s / 6

    @property
    def tend_s(self) -> float:
        """How often it looks whether its agents live."""
        return self.ttl_s / 3

    @property
    def turn_s(self) -> float:
        """How long the next host waits before it does what the one before should have done."""
        return self.ttl_s / 2


class HostRecord(Wire):
    """A machine that runs agents. It stays known when it is gone, until somebody forgets it."""

    name: str
    labels: dict[str, list[str]] = Field(default_factory=dict)
    agents_max: int = 10
    # Below so much free memory it takes nobody any more.
    memory_mb_min: int = 512
    started_ms: int
    pid: int | None = None
    version: str | None = None
    # Its teams, so that others can see to them when it is gone; and when it was drained.
    teams: list[str] = Field(default_factory=list)
    drained_ms: int | None = None


class HostBeat(Wire):
    """What a host says of itself every few seconds."""

    name: str
    beat_ms: int
    agents: int = 0
    memory_mb_free: int | None = None
    draining: bool = False


class SpawnRequest(Wire):
    """An agent that is registered and waits for a machine."""

    team: str
    agent: str
    nonce: str
    labels: dict[str, str] = Field(default_factory=dict)
    by: str
    asked_ms: int


class HostOrder(Wire):
    """What one host is asked to do now. `nonce` is the launch that is meant."""

    action: str
    team: str | None = None
    agent: str | None = None
    nonce: str | None = None
    grace_s: float = 5.0


ANY = ""
"""The value of a label that is asked for by its name alone."""


def wanted_labels(text: str) -> dict[str, str]:
    """The labels that `os=linux,gpu` asks for; `any` asks for none. Raises as `parse_labels`."""
    return {} if text == "any" else parse_labels(text)


def parse_labels(text: str) -> dict[str, str]:
    """The labels that `os=linux,gpu` names.

    Raises:
        Invalid: it is no list of labels.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if not name or not name.replace("-", "").replace("_", "").isalnum() or name in found:
            raise Invalid(
                f"{text!r} is no list of labels.",
                remedy="Write them like os=linux,gpu or repo=web.",
            )
        found[name] = value or ANY
    return found


def own_labels(given: Iterable[str], found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The labels of a host: what was found out about it, and what its owner says besides."""
    labels = {name: list(values) for name, values in found.items()}
    for text in given:
        for name, value in parse_labels(text).items():
            values = labels.setdefault(name, [])
            if value != ANY and value not in values:
                values.append(value)
    return labels


def fits(labels: Mapping[str, Sequence[str]], wanted: Mapping[str, str]) -> bool:
    """Whether a host has all labels that are asked for."""
    return all(
        name in labels and (value == ANY or value in labels[name]) for name, value in wanted.items()
    )


def has_room(host: HostRecord, beat: HostBeat) -> bool:
    """Whether a host takes another agent."""
    free = beat.memory_mb_free
    return (
        not beat.draining
        and beat.agents < host.agents_max
        and (free is None or free >= host.memory_mb_min)
    )


def pool_of(labels: Mapping[str, str]) -> str:
    """The queue of those who ask for the same labels."""
    if not labels:
        return "any"
    text = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rank(name: str, hosts: Iterable[str], lost: str) -> int:
    """How many hosts come before one when it is about who sees to the agents of a lost one.

    All hosts count to the same order without talking, and each lost host has another first.
    """

    def weight(host: str) -> bytes:
        return hashlib.sha256(f"{lost}\0{host}".encode()).digest()

    return sum(weight(host) < weight(name) for host in set(hosts) - {name, lost})


def shown_labels(labels: Mapping[str, Any]) -> str:
    """Labels as people write them."""
    parts = []
    for name, values in sorted(labels.items()):
        each = [values] if isinstance(values, str) else list(values)
        parts += [f"{name}={value}" if value else name for value in each or [ANY]]
    return ",".join(parts)
