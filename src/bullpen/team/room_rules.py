"""Whether this machine has room for one more agent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bullpen.protocol.agent import Limits

MB = 1_000_000
AGENT_BYTES = 100 * MB
"""What an agent of a kind that does not run yet is taken to use."""

FLOOR_BYTES = 256 * MB
FLOOR_SHARE = 0.05
"""What stays free of the machine's memory whatever the limits are: the smaller of the two."""


class Footprint(NamedTuple):
    """What a launch takes of a machine, with all that it has started."""

    bytes: int
    processes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agents of this machine use, and what it has left; None where nobody can tell."""

    used: Footprint
    agents: int
    free_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why there is no room. `hopeless`: waiting cannot help, because nobody could end."""

    why: str
    remedy: str
    hopeless: bool = False


def mean(sizes: Sequence[Footprint]) -> Footprint:
    """What each of several takes, one with another."""
    count = len(sizes)
    return Footprint(
        sum(each.bytes for each in sizes) // count,
        round(sum(each.processes for each in sizes) / count),
    )


def expected(usual: Sequence[int] | None) -> Footprint:
    """What one more agent will take: what those like it usually do, as far as that is known."""
    if usual is None:
        return Footprint(AGENT_BYTES, 1)
    size, processes = usual
    return Footprint(max(AGENT_BYTES, size), max(1, processes))


def shortage(limits: Limits, machine: Machine, need: Footprint) -> Shortage | None:
    """What stands in the way of one more agent; None if there is room."""
    used = machine.used
    if limits.memory_mb is not None and used.bytes + need.bytes > limits.memory_mb * MB:
        most = gigabytes(limits.memory_mb * MB)
        return Shortage(
            f"the agents of this machine use {_figure(used.bytes)} of {most},"
            f" and one more takes about {gigabytes(need.bytes)}",
            "End some agents, or raise the limit: bullpen team limits --memory-mb N",
            hopeless=machine.agents == 0,
        )
    if limits.processes is not None and used.processes + need.processes > limits.processes:
        return Shortage(
            f"the agents of this machine run {used.processes} of {limits.processes} processes,"
            f" and one more takes about {need.processes}",
            "End some agents, or raise the limit: bullpen team limits --processes N",
            hopeless=machine.agents == 0,
        )
    return _too_little_free(machine, need)


def _too_little_free(machine: Machine, need: Footprint) -> Shortage | None:
    if machine.free_bytes is None or machine.total_bytes is None:
        return None
    floor = min(FLOOR_BYTES, round(machine.total_bytes * FLOOR_SHARE))
    if machine.free_bytes - need.bytes >= floor:
        return None
    return Shortage(
        f"{gigabytes(machine.free_bytes)} of this machine's memory is free,"
        f" one more takes about {gigabytes(need.bytes)}, and {gigabytes(floor)} must stay free",
        "End something that uses memory: agents, or other programs.",
    )


def goes_first(earlier: Limits, later: Limits) -> bool:
    """Whether one that came earlier is let in before one that came later.

    Whoever has stricter limits may be overtaken: those are in its own way, in nobody else's.
    """
    pairs = ((earlier.memory_mb, later.memory_mb), (earlier.processes, later.processes))
    return all(mine is None or (other is not None and mine >= other) for mine, other in pairs)


def gigabytes(size: int) -> str:
    """So many bytes, for people."""
    return f"{_figure(size)} GB"


def _figure(size: int) -> str:
    return f"{size / 1e9:.2f}" if size < 1e9 else f"{size / 1e9:.1f}"
