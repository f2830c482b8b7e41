"""How much each measurement does: full, quick, or just enough to show that it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def sizes(kind: Callable[..., T], **counts: tuple[Any, Any, Any]) -> tuple[T, T, T]:
    """The three sizes of a run: full, quick and smoke, from what each does of everything."""
    full, quick, smoke = zip(*counts.values(), strict=True)

    def size(name: str, values: tuple[Any, ...]) -> T:
        return kind(name=name, **dict(zip(counts, values, strict=True)))

    return size("full", full), size("quick", quick), size("smoke", smoke)


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


FULL, QUICK, SMOKE = sizes(
    Counts,
    repeats=(3, 1, 1),
    sends=(150, 60, 3),
    slow_sends=(3, 2, 1),
    unread=(10_000, 10_000, 150),
    history=(50_000, 5_000, 700),
    writers=(16, 16, 3),
    sends_each=(60, 25, 3),
    peer_sends_each=(6, 3, 1),
    joins=((16, 64), (16,), (3,)),
    creates_each=(200, 25, 2),
    peer_creates_each=(40, 8, 1),
    tasks=(500, 120, 8),
    peer_claims_s=(3.0, 0.7, 0.2),
    reading_s=(10.0, 1.5, 0.3),
    peer_reading_s=(3.0, 0.7, 0.2),
    kills=(20, 4, 1),
    foreign_releases=(5, 2, 1),
    dead_lock_age_s=(0.0, 9.0, 9.7),
    listed_tasks=(10_000, 10_000, 50),
    starts=(10, 2, 1),
    wakes=(15, 4, 2),
    watchers=(50, 20, 2),
    idle_s=(5.0, 1.0, 0.2),
)
