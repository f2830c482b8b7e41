"""How often a forge is asked: enough to notice, little while nothing happens."""

from __future__ import annotations

from collections import Counter

import pytest

from bullpen.runs.forge.looking.poll_wheel import HOT_TURNS, RESERVE, Look, PollWheel


def taken(wheel: PollWheel, numbers: list[int], now_s: float) -> list[Look]:
    """The looks of a round, if each costs one request."""
    due = wheel.due(numbers, now_s)
    looks = [*due.wanted, *due.rest[: due.most]]
    for look in looks:
        wheel.taken(look, now_s)
    return looks


def turned(wheel: PollWheel, numbers: list[int], minutes: int, start_s: float = 0.0) -> list[Look]:
    return [
        look for minute in range(minutes) for look in taken(wheel, numbers, start_s + minute * 60.0)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 12, 40])
def test_an_idle_team_costs_one_request_per_pull_request_and_minute(count: int) -> None:
    numbers = [*range(1, count + 1)]
    wheel = PollWheel(60.0)
    rounds = [taken(wheel, numbers, minute * 60.0) for minute in range(240)]
    assert max(map(len, rounds)) <= count
    looks = [look for each in rounds for look in each]
    # Nothing starves: everything was looked at several times.
    seen = Counter(looks)
    assert len(seen) == 2 + 4 * count
    assert min(seen.values()) >= 15


def test_without_pull_requests_only_issues_are_asked_for() -> None:
    assert turned(PollWheel(60.0), [], 5) == [Look("issues")] * 5


def test_what_changed_is_looked_at_every_time_for_a_while() -> None:
    wheel = PollWheel(60.0)
    numbers = [*range(1, 13)]
    turned(wheel, numbers, 20)
    wheel.stir(7, 20 * 60.0)
    busy = turned(wheel, numbers, HOT_TURNS, 20 * 60.0)
    assert Counter(busy)[Look("verdicts", 7)] >= HOT_TURNS - 1
    idle = turned(wheel, numbers, 60, (21 + HOT_TURNS) * 60.0)
    assert len(idle) <= 60 * 12


def test_a_hint_is_followed_at_once_and_once() -> None:
    wheel = PollWheel(60.0)
    wheel.due([3, 4], 0.0)
    assert wheel.next_s(1.0) == 59.0
    wheel.hint(4, 1.0)
    assert wheel.next_s(1.0) == 0.0
    looks = taken(wheel, [3, 4], 1.0)
    assert {look.kind for look in looks if look.number == 4} == {
        "verdicts", "threads", "reviews", "comments"
    }  # fmt: skip
    assert not any(look.number == 3 for look in looks)
    assert taken(wheel, [3, 4], 2.0) == []


def test_a_hint_without_a_number_is_a_look_at_everything_once() -> None:
    wheel = PollWheel(60.0)
    wheel.due([3, 4], 0.0)
    wheel.hint_all()
    assert wheel.next_s(1.0) == 0.0
    assert len(wheel.due([3, 4], 1.0).wanted) == 2 + 2 * 4
    assert taken(wheel, [3, 4], 2.0) == []


def test_a_hint_about_a_pull_request_that_is_not_ours_costs_only_the_lists() -> None:
    wheel = PollWheel(60.0)
    wheel.due([3], 0.0)
    wheel.hint(99, 1.0)
    assert {look.number for look in wheel.due([3], 1.0).wanted} == {0}


def test_the_last_requests_of_the_limit_are_left_for_writes() -> None:
    assert PollWheel(60.0).due([1, 2, 3], 0.0, left=RESERVE).limit == 0
    assert PollWheel(60.0).due([1, 2, 3], 0.0, left=RESERVE + 2).limit == 2
    assert PollWheel(60.0).due([1, 2, 3], 0.0).limit is None


def test_a_look_that_needs_more_requests_goes_on_first_in_the_next_round() -> None:
    wheel = PollWheel(60.0)
    first = wheel.due([3], 0.0).rest[0]
    wheel.unfinished(first)
    for look in wheel.due([3], 60.0).rest[1:]:
        wheel.taken(look, 60.0)
    assert wheel.goes_on_with(first)
    assert wheel.due([3], 120.0).rest[0] == first
    wheel.taken(first, 120.0)
    assert not wheel.goes_on_with(first)
