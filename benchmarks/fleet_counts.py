"""How much each fleet measurement does: full, quick, or just enough to show that it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """Repetitions, counts and durations. Names end in their unit where they have one."""

    name: str
    # a
    rounds: int
    round_s: float
    writers: int
    # b
    mail_teams: int
    mail_agents: int
    mail_per_s: int
    mail_s: float
    bare_mail_s: float
    # c
    claim_hosts: int
    claim_workers: int
    claim_tasks: int
    claim_races: int
    # d
    loads: int
    loaded_tasks: int
    loaded_events: int
    # e
    idle_teams: int
    idle_agents: int
    idle_hosts: int
    idle_s: float
    beat_s: float
    # How often a working agent writes.
    commit_every_s: float
    outage_s: float
    # f
    disk_teams: int
    disk_warm: int
    disk_messages: int


FULL = FleetCounts(
    name="full",
    rounds=30,
    round_s=0.7,
    writers=64,
    mail_teams=200,
    mail_agents=10,
    mail_per_s=200,
    mail_s=20.0,
    bare_mail_s=5.0,
    claim_hosts=4,
    claim_workers=16,
    claim_tasks=1_000,
    claim_races=3,
    loads=100,
    loaded_tasks=50,
    loaded_events=300,
    idle_teams=2_000,
    idle_agents=10,
    idle_hosts=4,
    idle_s=60.0,
    beat_s=20.0,
    commit_every_s=15.0,
    outage_s=12.0,
    disk_teams=16,
    disk_warm=60,
    disk_messages=600,
)

QUICK = FleetCounts(
    name="quick",
    rounds=10,
    round_s=0.3,
    writers=64,
    mail_teams=50,
    mail_agents=10,
    mail_per_s=200,
    mail_s=4.0,
    bare_mail_s=2.0,
    claim_hosts=4,
    claim_workers=16,
    claim_tasks=300,
    claim_races=1,
    loads=30,
    loaded_tasks=50,
    loaded_events=300,
    idle_teams=200,
    idle_agents=10,
    idle_hosts=2,
    idle_s=20.0,
    beat_s=20.0,
    commit_every_s=15.0,
    outage_s=12.0,
    disk_teams=16,
    disk_warm=60,
    disk_messages=150,
)

SMOKE = FleetCounts(
    name="smoke",
    rounds=1,
    round_s=0.2,
    writers=4,
    mail_teams=3,
    mail_agents=2,
    mail_per_s=20,
    mail_s=1.0,
    bare_mail_s=0.5,
    claim_hosts=2,
    claim_workers=2,
    claim_tasks=8,
    claim_races=1,
    loads=2,
    loaded_tasks=3,
    loaded_events=8,
    idle_teams=6,
    idle_agents=2,
    idle_hosts=2,
    idle_s=1.0,
    beat_s=0.5,
    commit_every_s=0.5,
    outage_s=0.0,
    disk_teams=2,
    disk_warm=2,
    disk_messages=4,
)
