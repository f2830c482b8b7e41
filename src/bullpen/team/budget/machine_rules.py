"""Rules that decide whether this machine has room for one more agent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bullpen.protocol.team import Limits

MB = 1_000_000
AGENT_BYTES = 100 * MB
"""Assumed use of an agent if no agent of its kind runs yet."""

FLOOR_BYTES = 256 * MB
FLOOR_SHARE = 0.05
"""Memory that always stays free: the smaller of these two."""


class Footprint(NamedTuple):
    """What a launch and everything it started uses of a machine."""

    bytes: int
    processes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agents on this machine use, and what is free. None means unknown."""

    used: Footprint
    agents: int
    free_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why there is no room. `hopeless` means that waiting cannot help: no agent could end."""

    why: str
    remedy: str
    hopeless: bool = False


def mean(sizes: Sequence[Footprint]) -> Footprint:
    """Return the average of several footprints."""
    count = len(sizes)
    return Footprint(
        sum(each.bytes for each in sizes) // count,
        round(sum(each.processes for each in sizes) / count),
    )


def expected(usual: Sequence[int] | None) -> Footprint:
    """Return what one more agent will probably use, judging by similar agents."""
    if usual is None:
        return Footprint(AGENT_BYTES, 1)
    size, processes = usual
    return Footprint(max(AGENT_BYTES, size), max(1, processes))


def shortage(limits: Limits, machine: Machine, need: Footprint) -> Shortage | None:
    """Return what prevents one more agent, or None if there is room."""
    used = machine.used
    if limits.memory_mb is not None and used.bytes + need.bytes > limits.memory_mb * MB:
        most = gigabytes(limits.memory_mb * MB)
        return Shortage(
            f"the agents on this machine use {_figure(used.bytes)} of {most}, and one more needs "
            f"about {gigabytes(need.bytes)}",
            "Stop some agents, or raise the limit: bullpen team limits --memory-mb N",
            hopeless=machine.agents == 0,
        )
    if limits.processes is not None and used.processes + need.processes > limits.processes:
        return Shortage(
            f"the agents on this machine run {used.processes} of {limits.processes} processes, "
            f"and one more needs about {need.processes}",
            "Stop some agents, or raise the limit: bullpen team limits --processes N",
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
        f"this machine has {gigabytes(machine.free_bytes)} of free memory, one more agent needs "
        f"about {gigabytes(need.bytes)}, and {gigabytes(floor)} must stay free",
        "Stop some agents or other programs that use memory.",
    )


def goes_first(earlier: Limits, later: Limits) -> bool:
    """Return whether an earlier request is admitted before a later one.

    A request with stricter limits can be overtaken: its own limits stop it, nobody else's.
    """
    pairs = ((earlier.memory_mb, later.memory_mb), (earlier.processes, later.processes))
    return all(mine is None or (other is not None and mine >= other) for mine, other in pairs)


def gigabytes(size: int) -> str:
    """Format a number of bytes for people."""
    return f"{_figure(size)} GB"


def _figure(size: int) -> str:
    return f"{size / 1e9:.2f}" if size < 1e9 else f"{size / 1e9:.1f}"
