"""How much each fleet measurement does: full, quick, or just enough to show that it runs."""

from __future__ import annotations

from dataclasses import dataclass

from counts import sizes


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


FULL, QUICK, SMOKE = sizes(
    FleetCounts,
    rounds=(16, 10, 1),
    round_s=(0.7, 0.3, 0.2),
    writers=(64, 64, 4),
    mail_teams=(200, 50, 3),
    mail_agents=(10, 10, 2),
    mail_per_s=(200, 200, 20),
    mail_s=(20.0, 4.0, 1.0),
    bare_mail_s=(5.0, 2.0, 0.5),
    claim_hosts=(4, 4, 2),
    claim_workers=(16, 16, 2),
    claim_tasks=(1_000, 300, 8),
    claim_races=(3, 1, 1),
    loads=(100, 30, 2),
    loaded_tasks=(50, 50, 3),
    loaded_events=(300, 300, 8),
    idle_teams=(2_000, 200, 6),
    idle_agents=(10, 10, 2),
    idle_hosts=(4, 2, 2),
    idle_s=(60.0, 20.0, 1.0),
    beat_s=(20.0, 20.0, 0.5),
    commit_every_s=(15.0, 15.0, 0.5),
    outage_s=(12.0, 12.0, 0.0),
    disk_teams=(16, 16, 2),
    disk_warm=(60, 60, 2),
    disk_messages=(600, 150, 4),
)
