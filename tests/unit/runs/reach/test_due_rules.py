"""Which notices are due when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bullpen.protocol.clock import iso
from bullpen.runs.reach.due_rules import (
    DIGEST_FROM,
    PINGS,
    SENT_MAX,
    WAITING_MAX,
    Line,
    cause_of,
    due,
    failed,
    heard,
    held_over,
    is_quiet_at,
    pause_ms,
    quiet_ends_ms,
    settled,
)
from bullpen.view.notable_events import Happening

NOW = 1_000_000


def asked(number: int) -> Happening:
    return Happening(
        "asked", "alpha", iso(number), "x", agent="bob", seq=number, request=f"r{number}"
    )


def line(*numbers: int, quiet: bool = False) -> Line:
    found = Line()
    for number in numbers:
        found = heard(found, asked(number), now_ms=NOW, quiet=quiet)
    return found


def causes(found: Line) -> list[str]:
    return [each.cause for each in found.waiting]


def test_only_what_blocks_on_a_person_and_the_end_are_pings() -> None:
    assert PINGS == ("asked", "failed", "ended")


def test_one_cause_waits_once_and_is_not_sent_again() -> None:
    found = line(1, 1, 2)
    assert len(found.waiting) == 2
    done = settled(found, causes(found))
    assert heard(done, asked(1), now_ms=NOW, quiet=False).waiting == ()


def test_a_request_is_one_cause_however_often_it_is_recorded() -> None:
    again = Happening("asked", "alpha", iso(9), "x", agent="bob", seq=9, request="r1")
    assert cause_of(again) == cause_of(asked(1))


def test_two_runs_that_end_are_two_causes() -> None:
    ends = [Happening("ended", "alpha", iso(number), "x") for number in (1, 2)]
    assert cause_of(ends[0]) != cause_of(ends[1])


def test_what_waits_is_due_one_after_another() -> None:
    found = due(line(1, 2), now_ms=NOW, quiet=False)
    assert [each.happening.seq for each in found.notices] == [1]


def test_many_at_once_are_one_notice() -> None:
    found = due(line(*range(DIGEST_FROM)), now_ms=NOW, quiet=False)
    assert len(found.notices) == DIGEST_FROM


def test_in_quiet_hours_nothing_is_due_and_afterwards_one_digest() -> None:
    before = line(1)
    night = held_over(heard(before, asked(2), now_ms=NOW, quiet=True))
    assert due(night, now_ms=NOW, quiet=True).notices == ()
    assert due(night, now_ms=NOW, quiet=True, at_once=True).notices == ()
    morning = heard(night, asked(3), now_ms=NOW, quiet=False)
    assert [each.happening.seq for each in due(morning, now_ms=NOW, quiet=False).notices] == [1, 2]
    after = settled(morning, causes(night))
    assert [each.happening.seq for each in due(after, now_ms=NOW, quiet=False).notices] == [3]


def test_what_could_not_be_sent_is_tried_again_after_growing_pauses() -> None:
    found, now = line(1), NOW
    pauses = []
    for _ in range(12):
        found = failed(found, causes(found), now_ms=now)
        pause = due(found, now_ms=now, quiet=False).wait_ms
        assert pause is not None
        assert due(found, now_ms=now + pause - 1, quiet=False).notices == ()
        now += pause
        assert len(due(found, now_ms=now, quiet=False).notices) == 1
        pauses.append(pause)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (5_000, 10_000, 900_000)
    assert pause_ms(10**6) == 900_000


def test_at_the_end_of_a_run_pauses_do_not_count() -> None:
    found = failed(line(1), causes(line(1)), now_ms=NOW)
    assert due(found, now_ms=NOW, quiet=False, at_once=True).notices


def test_one_that_fails_does_not_hold_up_the_next() -> None:
    found = failed(line(1, 2), [cause_of(asked(1))], now_ms=NOW)
    assert [each.happening.seq for each in due(found, now_ms=NOW, quiet=False).notices] == [2]


def test_the_record_stays_small() -> None:
    found = line(*range(WAITING_MAX + 7))
    assert len(found.waiting) == WAITING_MAX
    assert found.dropped == 7
    assert found.waiting[0].happening.seq == 7
    sent = Line()
    for number in range(SENT_MAX + 5):
        sent = settled(sent, [f"cause {number}"])
    assert len(sent.sent) == SENT_MAX
    assert sent.sent[-1] == f"cause {SENT_MAX + 4}"


@pytest.mark.parametrize(
    ("span", "hour", "quiet", "ends_in_h"),
    [
        ("22:00-07:00", 21, False, 1),
        ("22:00-07:00", 22, True, 9),
        ("22:00-07:00", 3, True, 4),
        ("22:00-07:00", 7, False, 15),
        ("09:00-17:00", 12, True, 5),
        (None, 3, False, None),
    ],
)
def test_quiet_hours_may_cross_midnight(
    span: str | None, hour: int, quiet: bool, ends_in_h: int | None
) -> None:
    at = datetime(2031, 5, 1, hour, tzinfo=UTC)
    assert is_quiet_at(span, at) is quiet
    ends = quiet_ends_ms(span, at)
    assert ends == (None if ends_in_h is None else ends_in_h * 3_600_000)
