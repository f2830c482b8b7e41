"""Who may be judged after the clock was set, the machine slept or a process was stopped."""

from __future__ import annotations

import pytest

from bullpen.protocol.presence import Presence
from bullpen.protocol.task import Task
from bullpen.team.agents.liveness import (
    SETTLE_S,
    Deadlines,
    GapWatch,
    HeardBeats,
    leases_over,
)

HOUR_S = 3600.0
WALL_MS = 1_800_000_000_000


class Clocks:
    """The two clocks of a process, made up."""

    def __init__(self) -> None:
        self.wall_ms = WALL_MS
        self.now_s = 50.0

    def go(self, seconds: float) -> Clocks:
        self.wall_ms += round(seconds * 1000)
        self.now_s += seconds
        return self

    def set(self, seconds: float) -> Clocks:
        """Set the clock, or sleep: only the wall clock moves."""
        self.wall_ms += round(seconds * 1000)
        return self


def watched(clocks: Clocks, *, every_s: float = 0.5, times: int = 10) -> GapWatch:
    watch = GapWatch()
    for _ in range(times):
        assert not watch.look(clocks.wall_ms, clocks.now_s)
        clocks.go(every_s)
    return watch


def is_gap(watch: GapWatch, clocks: Clocks) -> bool:
    return watch.look(clocks.wall_ms, clocks.now_s)


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S, 180.0, 8 * HOUR_S, 6.0])
def test_a_clock_that_jumps_is_a_gap_after_which_nobody_is_judged_for_a_lease(
    seconds: float,
) -> None:
    clocks = Clocks()
    watch = watched(clocks)
    assert watch.may_judge(clocks.now_s)
    assert is_gap(watch, clocks.set(seconds))
    assert not watch.may_judge(clocks.now_s)
    for _ in range(round(SETTLE_S * 2) - 1):
        assert not is_gap(watch, clocks.go(0.5))
        assert not watch.may_judge(clocks.now_s)
    assert watch.may_judge(clocks.go(0.5).now_s)


def test_a_process_that_was_stopped_notices_it() -> None:
    clocks = Clocks()
    watch = watched(clocks)
    assert is_gap(watch, clocks.go(11))
    assert not watch.may_judge(clocks.now_s)
    assert not is_gap(watch, clocks.go(0.5)), "it runs again"
    assert is_gap(watch, clocks.go(180)), "and is stopped again"


@pytest.mark.parametrize("every_s", [0.5, 3.0, 9.0])
def test_a_busy_machine_is_no_gap(every_s: float) -> None:
    clocks = Clocks()
    watch = watched(clocks, every_s=every_s)
    assert not is_gap(watch, clocks.go(9).set(2))
    assert watch.may_judge(clocks.now_s)


def test_a_watcher_that_looks_rarely_judges_all_the_same() -> None:
    clocks, watch = Clocks(), GapWatch()
    gaps = [is_gap(watch, clocks.go(30)) for _ in range(10)]
    assert gaps == [False, True, *[False] * 8]
    assert watch.may_judge(clocks.now_s)


# --- deadlines


@pytest.mark.parametrize("set_s", [HOUR_S, -HOUR_S, 8 * HOUR_S, 0.0])
def test_a_deadline_that_was_seen_passes_neither_early_nor_late(set_s: float) -> None:
    clocks, deadlines = Clocks(), Deadlines()
    until_ms = clocks.wall_ms + 120_000

    def passed() -> bool:
        return deadlines.has_passed("1", until_ms, wall_ms=clocks.wall_ms, now_s=clocks.now_s)

    assert not passed()
    clocks.set(set_s).go(119)
    assert not passed()
    clocks.go(1)
    assert passed()


def test_a_renewed_lease_counts_from_its_renewal() -> None:
    clocks, deadlines = Clocks(), Deadlines()
    for _ in range(5):
        until_ms = clocks.wall_ms + 120_000
        for _ in range(2):
            assert not deadlines.has_passed(
                "1", until_ms, wall_ms=clocks.wall_ms, now_s=clocks.now_s
            )
            clocks.go(40).set(HOUR_S)
    assert deadlines.has_passed("2", until_ms, wall_ms=clocks.wall_ms, now_s=clocks.now_s), (
        "seen for the first time, there is only the wall clock"
    )


def task(task_id: str, owner: str, until_ms: int | None, status: str = "in_progress") -> Task:
    made = Task.parse(
        {"id": task_id, "subject": "x", "description": "", "status": status, "owner": owner}
    )
    return made.with_facts(attempt=1, lease_until_ms=until_ms)


def test_the_lease_of_a_living_owner_is_never_over() -> None:
    clocks, deadlines = Clocks(), Deadlines()
    over_ms = clocks.wall_ms - 1
    tasks = [
        task("1", "alice", over_ms),
        task("2", "bob@crew", over_ms),
        task("3", "carl", over_ms),
        task("4", "carl", clocks.wall_ms + 1000),
        task("5", "carl", None),
        task("6", "carl", over_ms, status="pending"),
    ]

    def over(*alive: str) -> list[str]:
        found = leases_over(
            tasks, "crew", deadlines, alive=alive, wall_ms=clocks.wall_ms, now_s=clocks.now_s
        )
        assert set(found.values()) <= {over_ms, clocks.wall_ms}
        return list(found)

    assert over() == ["1", "2", "3"]
    assert over("alice", "bob") == ["3"]
    assert over("alice", "bob", "carl") == []


# --- heartbeats


def beat(at_ms: int, *, nonce: str = "n", state: str = "working") -> Presence:
    return Presence.new(
        agent="alice", state=state, since_ms=0, beat_ms=at_ms, ttl_ms=10_000, nonce=nonce
    )


@pytest.mark.parametrize("skew_s", [0.0, HOUR_S, -HOUR_S])
def test_an_agent_whose_clock_is_wrong_is_alive_while_its_heartbeats_change(skew_s: float) -> None:
    clocks, heard = Clocks(), HeardBeats()
    for _ in range(20):
        last = beat(clocks.wall_ms + round(skew_s * 1000))
        for _ in range(8):
            heard.hear([last], clocks.now_s)
            assert not heard.is_silent(last, clocks.now_s)
            clocks.go(1)
    assert heard.looks_alive(last, wall_ms=clocks.wall_ms, now_s=clocks.now_s)


@pytest.mark.parametrize("skew_s", [0.0, HOUR_S, -HOUR_S])
def test_a_dead_agent_is_silent_after_the_same_time_whatever_its_clock_says(skew_s: float) -> None:
    clocks, heard = Clocks(), HeardBeats()
    for last in (beat(1), beat(clocks.wall_ms + round(skew_s * 1000))):
        heard.hear([last], clocks.now_s)
    clocks.go(10.5)
    assert not heard.looks_alive(last, wall_ms=clocks.wall_ms, now_s=clocks.now_s)
    assert not heard.is_silent(last, clocks.go(19).now_s)
    assert heard.is_silent(last, clocks.go(1).now_s)


def test_a_heartbeat_that_was_never_seen_before_proves_no_silence() -> None:
    clocks, heard = Clocks(), HeardBeats()
    old = beat(clocks.wall_ms - 8 * 3_600_000)
    assert not heard.is_silent(old, clocks.now_s)
    heard.hear([old], clocks.now_s)
    assert not heard.is_silent(old, clocks.now_s)
    assert not heard.looks_alive(old, wall_ms=clocks.wall_ms, now_s=clocks.now_s), (
        "but it is shown as what it seems to be"
    )


def test_a_new_launch_is_not_silent_because_the_one_before_was() -> None:
    clocks, heard = Clocks(), HeardBeats()
    heard.hear([beat(1)], clocks.now_s)
    clocks.go(100)
    heard.hear([beat(1, nonce="next")], clocks.now_s)
    assert not heard.is_silent(beat(1, nonce="next"), clocks.now_s)
    assert not heard.looks_alive(
        beat(clocks.wall_ms, state="stopped"), wall_ms=clocks.wall_ms, now_s=clocks.now_s
    )
