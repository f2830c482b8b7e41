"""How much each measurement does: full, quick, or just enough to show that it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Repetitions, counts and durations. Names end in their unit where they have one."""

    name: str
    repeats: int
    # Rows 1 and 2: sends per repeat, of ours and of approaches that need 100 ms for one.
    sends: int
    slow_sends: int
    unread: int
    history: int
    # Row 3
    writers: int
    sends_each: int
    peer_sends_each: int
    # Row 4
    joins: tuple[int, ...]
    # Row 5
    creates_each: int
    peer_creates_each: int
    # Row 6
    tasks: int
    peer_claims_s: float
    # Row 7
    reading_s: float
    peer_reading_s: float
    # Row 8
    kills: int
    foreign_releases: int
    dead_lock_age_s: float
    # Row 9
    listed_tasks: int
    starts: int
    # Row 10
    wakes: int
    watchers: int
    idle_s: float


FULL = Counts(
    name="full",
    repeats=3,
    sends=150,
    slow_sends=3,
    unread=10_000,
    history=50_000,
    writers=16,
    sends_each=60,
    peer_sends_each=6,
    joins=(16, 64),
    creates_each=200,
    peer_creates_each=40,
    tasks=500,
    peer_claims_s=3.0,
    reading_s=10.0,
    peer_reading_s=3.0,
    kills=20,
    foreign_releases=5,
    dead_lock_age_s=0.0,
    listed_tasks=10_000,
    starts=10,
    wakes=15,
    watchers=50,
    idle_s=5.0,
)

QUICK = Counts(
    name="quick",
    repeats=1,
    sends=60,
    slow_sends=2,
    unread=10_000,
    history=5_000,
    writers=16,
    sends_each=25,
    peer_sends_each=3,
    joins=(16,),
    creates_each=25,
    peer_creates_each=8,
    tasks=120,
    peer_claims_s=0.7,
    reading_s=1.5,
    peer_reading_s=0.7,
    kills=4,
    foreign_releases=2,
    dead_lock_age_s=9.0,
    listed_tasks=10_000,
    starts=2,
    wakes=4,
    watchers=20,
    idle_s=1.0,
)

SMOKE = Counts(
    name="smoke",
    repeats=1,
    sends=3,
    slow_sends=1,
    unread=150,
    history=700,
    writers=3,
    sends_each=3,
    peer_sends_each=1,
    joins=(3,),
    creates_each=2,
    peer_creates_each=1,
    tasks=8,
    peer_claims_s=0.2,
    reading_s=0.3,
    peer_reading_s=0.2,
    kills=1,
    foreign_releases=1,
    dead_lock_age_s=9.7,
    listed_tasks=50,
    starts=1,
    wakes=2,
    watchers=2,
    idle_s=0.2,
)
