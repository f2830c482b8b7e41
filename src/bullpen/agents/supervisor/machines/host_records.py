"""The records of hosts, the orders they get, and the rules for which of them act. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol.record import Wire, field


@dataclass(frozen=True, slots=True)
class HostPace:
    """The intervals of hosts. All derive from when the servers forget a heartbeat: a lost host."""

    ttl_s: float = 30.0

    @property
    def beat_s(self) -> float:
        """How often a host sends a heartbeat and looks for other hosts."""
        return self.ttl_s / 6

    @property
    def tend_s(self) -> float:
        """How often a host checks that its agents are alive."""
        return self.ttl_s / 3

    @property
    def turn_s(self) -> float:
        """How long the next host waits before it does what the one before should have done."""
        return self.ttl_s / 2


class HostRecord(Wire):
    """A machine that runs agents. It stays known after it is gone, until someone forgets it."""

    name: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    agents_max: int = 10
    # With less free memory than this it takes no more agents.
    memory_mb_min: int = 512
    started_ms: int
    pid: int | None = None
    version: str | None = None
    # Its teams, which other hosts take over when it is lost; and when it was drained.
    teams: list[str] = field(default_factory=list)
    drained_ms: int | None = None


class HostBeat(Wire):
    """The heartbeat of a host."""

    name: str
    beat_ms: int
    agents: int = 0
    memory_mb_free: int | None = None
    draining: bool = False


class HostSpawn(Wire):
    """A registered agent that waits for a machine."""

    team: str
    agent: str
    nonce: str
    labels: dict[str, str] = field(default_factory=dict)
    by: str
    asked_ms: int


class HostOrder(Wire):
    """An order to one host. `nonce` identifies the launch."""

    action: str
    team: str | None = None
    agent: str | None = None
    nonce: str | None = None
    grace_s: float = 5.0


ANY = ""
"""The value of a label that is asked for only by name."""


def wanted_labels(text: str) -> dict[str, str]:
    """The labels that `os=linux,gpu` asks for; `any` asks for none. Raises Invalid."""
    return {} if text == "any" else parse_labels(text)


def parse_labels(text: str) -> dict[str, str]:
    """The labels in `os=linux,gpu`. Raises Invalid."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if not name or not name.replace("-", "").replace("_", "").isalnum() or name in found:
            raise Invalid(
                f"{text!r} is not a list of labels.",
                remedy="Write labels like os=linux,gpu or repo=web.",
            )
        found[name] = value or ANY
    return found


def own_labels(given: Iterable[str], found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The labels of a host: those that were detected, and those that its owner adds."""
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
    """The pool of agents that ask for the same labels."""
    if not labels:
        return "any"
    text = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rank(name: str, hosts: Iterable[str], lost: str) -> int:
    """How many hosts come before this one in taking over the agents of a lost host.

    All hosts compute the same order without talking, and each lost host has another first.
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
