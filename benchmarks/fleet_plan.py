"""Calculate the needs of a cell of 250,000 agents in 25,000 teams from measured costs.

python benchmarks/fleet_plan.py FIGURES      (the output of `fleet.py --json FIGURES`)

The assumptions are those of the plan: one agent in ten works, sends one message a minute and
changes a task every two minutes. Each message is stored, then marked injected and seen: three
commits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet_cell import NODES
from fleet_figures import Costs

TEAMS = 25_000
AGENTS = 250_000
HOSTS = 1_250
HOSTS_PER_TEAM = 2
ACTIVE = AGENTS // 10
COMMITS_PER_MINUTE = 3 + 0.5
PEAK = 4
BEATS_WRITTEN_EVERY_S = 20.0
CORES = 24

# What one of these costs a server, from probes made before the store was written.
SUBJECT_KB = (0.39, 0.58)
SUBSCRIPTION_KB = 1.8
CONNECTION_KB = 42

_DAY_S = 86_400
_GB_KB = 1024 * 1024
_UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Need:
    """One resource of a cell: the planned amount and the amount the measured costs give."""

    name: str
    planned: str
    calculated: str


def commits_per_s() -> float:
    """The average number of commits per second in a cell."""
    return ACTIVE * COMMITS_PER_MINUTE / 60


def gb_a_day(kept_bytes_per_commit: float) -> float:
    """What a server of a cell keeps of one day."""
    return kept_bytes_per_commit * commits_per_s() * _DAY_S / 1024**3


def needs(costs: Costs) -> list[Need]:
    """Everything that a cell needs from its servers and hosts."""
    return [*_counted(), *_of_servers(costs), *_of_hosts(costs)]


def _counted() -> list[Need]:
    """What follows from the layout alone."""
    lasting = TEAMS * (4 + HOSTS_PER_TEAM)
    subscriptions, connections = TEAMS * HOSTS_PER_TEAM, HOSTS / NODES
    return [
        Need(
            "commits a second, average and peak",
            "1,050 and 4,200",
            f"{commits_per_s():,.0f} and {commits_per_s() * PEAK:,.0f}",
        ),
        Need(
            "subjects: logs, histories, directory, heartbeats",
            "525,000, with inboxes and cursors",
            f"{lasting:,}, {lasting * SUBJECT_KB[1] / _GB_KB:.2f} GB a node",
        ),
        Need(
            "subscriptions",
            "50,000, 0.09 GB a node",
            f"{subscriptions:,}, {subscriptions * SUBSCRIPTION_KB / _GB_KB:.2f} GB a node",
        ),
        Need(
            "connections of a node",
            "420, 0.02 GB",
            f"{connections:.0f}, {connections * CONNECTION_KB / _GB_KB:.2f} GB",
        ),
        Need(
            "heartbeats written a second",
            "125",
            f"{TEAMS * HOSTS_PER_TEAM / BEATS_WRITTEN_EVERY_S:,.0f}",
        ),
    ]


def _of_servers(costs: Costs) -> list[Need]:
    memory, idle, busy, disk = [_UNKNOWN] * 4
    if costs.idle_servers_kb is not None:
        memory = f"{costs.idle_servers_kb * AGENTS / NODES / _GB_KB:.1f} GB"
    if costs.idle_servers_us_per_s is not None:
        idle = f"{costs.idle_servers_us_per_s * AGENTS / 1e6:.1f} of {CORES}"
    measured = [
        each
        for each in (
            costs.commit_servers_us,
            None if costs.message_servers_us is None else costs.message_servers_us / 2,
        )
        if each is not None
    ]
    if measured:
        cores = [commits_per_s() * PEAK * each / 1e6 for each in measured]
        busy = f"{min(cores):.1f} to {max(cores):.1f} of {CORES}"
    if costs.kept_bytes_per_commit is not None:
        disk = f"{gb_a_day(costs.kept_bytes_per_commit):.0f} GB, kept until the team is deleted,"
        disk += " or as its `[retention]` says"
    return [
        Need("memory of a node for idle agents", "2 GB; 16 provided", memory),
        Need("cores of three nodes, all idle", "0.2 for heartbeats", idle),
        Need("cores of three nodes, commits at the peak", f"3.4 of {CORES}", busy),
        Need("disk of a node, a day", "23 GB, kept 7 days", disk),
    ]


def _of_hosts(costs: Costs) -> list[Need]:
    here = AGENTS // HOSTS
    memory = cpu = _UNKNOWN
    if costs.idle_host_kb is not None:
        memory = f"{costs.idle_host_kb * here / 1024:.1f} MB"
    if costs.idle_host_us_per_s is not None:
        cpu = f"{costs.idle_host_us_per_s * here / 1e4:.2f} % of a core"
    return [
        Need(f"memory of a host for {here} idle agents", "-", memory),
        Need(f"processor of a host for {here} idle agents", "-", cpu),
    ]


def table(items: Sequence[Need]) -> str:
    """The needs as a Markdown table."""
    head = f"a cell of {TEAMS:,} teams, {AGENTS:,} agents, {HOSTS:,} hosts"
    rows = [f"{head} | planned | from measured costs", "--- | --- | ---"]
    rows += [f"{item.name} | {item.planned} | {item.calculated}" for item in items]
    return "\n".join(f"| {row} |" for row in rows)


def main() -> None:
    """Read the figures and print the table."""
    parser = argparse.ArgumentParser(description="Calculate what a whole cell needs.")
    parser.add_argument("figures", type=Path, help="output file of `fleet.py --json`")
    raw = json.loads(parser.parse_args().figures.read_text("utf-8"))
    print(table(needs(Costs(**raw["costs"]))))


if __name__ == "__main__":
    main()
