"""Writes to a forge: recorded before they are made, and made once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bullpen.errors import Invalid, Refused
from bullpen.protocol.forge import WRITES_MAX, ForgeAsked, ForgeFix, ForgeNight, ForgeWork
from bullpen.team.forge import outbox_rules
from bullpen.team.forge.nights.rules import has_room
from bullpen.team.forge.outbox_rules import Wish, begun, dropped, ended, finished, next_due, push_of
from bullpen.team.forge.work_rules import may_return

from .forge_teams import HEAD, NEXT, REPOSITORY, forge_of, handed_in

NEW = ForgeWork.new(repository=REPOSITORY, issue=7)


def test_a_cause_has_one_write_of_a_kind_ever() -> None:
    once = begun(NEW, [Wish("reply", "c1", "t1", "Done."), Wish("resolve", "c1", "t1")], now_ms=1)
    assert [(each.n, each.kind, each.state) for each in once.writes] == [
        (1, "reply", "due"), (2, "resolve", "due"),
    ]  # fmt: skip
    assert begun(once, [Wish("reply", "c1", "t1", "Other.")], now_ms=2) is once
    done = finished(once, 1, there="77", digest=None, now_ms=3)
    assert begun(done, [Wish("reply", "c1")], now_ms=4) is done
    assert finished(done, 1, there="78", digest=None, now_ms=5) is done
    assert (done.writes[0].id, done.writes[0].text) == ("77", None)


def test_a_write_that_was_dropped_can_be_wanted_again_under_its_number() -> None:
    once = begun(NEW, [Wish("merge", HEAD, HEAD)], now_ms=1)
    again = begun(dropped(once, 1, now_ms=2), [Wish("merge", HEAD, HEAD)], now_ms=3)
    assert [(each.n, each.state) for each in again.writes] == [(1, "due")]
    done = finished(again, 1, there=NEXT, digest=None, now_ms=4)
    assert dropped(done, 1, now_ms=5) is done


def test_a_text_that_is_edited_keeps_its_id() -> None:
    work = begun(NEW, [Wish("state", "state", "7")], now_ms=1)
    work = finished(work, 1, there="5", digest="a", now_ms=2)
    work = finished(work, 1, there=None, digest="b", now_ms=3)
    assert (work.writes[0].id, work.writes[0].digest) == ("5", "b")


def test_writes_are_made_in_an_order_that_is_right() -> None:
    kinds = ["delete", "close", "merge", "state", "resolve", "answer", "reply", "pull", "push"]
    work = begun(NEW, [Wish(kind, "1") for kind in kinds], now_ms=1)  # type: ignore[arg-type]
    order = []
    while (due := next_due(work)) is not None:
        order.append(due.kind)
        work = finished(work, due.n, there="1", digest=None, now_ms=2)
    assert order == [*kinds[:6:-1], "reply", "answer", "resolve", "state", *kinds[2::-1]]


def test_work_that_was_replaced_is_not_pushed() -> None:
    work = begun(NEW, [push_of(NEW, 1, HEAD)], now_ms=1)
    work = begun(work, [push_of(NEW, 2, NEXT)], now_ms=2)
    assert [(each.target, each.state) for each in work.writes] == [
        (HEAD, "dropped"), (NEXT, "due"),
    ]  # fmt: skip
    assert [outbox_rules.attempt_of(each) for each in work.writes] == [1, 2]


def test_after_the_end_nothing_is_pushed_or_merged_and_a_pull_request_is_only_looked_for() -> None:
    wishes = [push_of(NEW, 1, HEAD), Wish("pull", "1"), Wish("merge", HEAD), Wish("reply", "c1")]
    work = begun(NEW, wishes, now_ms=1).evolve(outcome="issue_closed")
    work = ended(work, now_ms=2)
    assert [each.state for each in work.writes] == ["dropped", "due", "dropped", "due"]
    due = next_due(work)
    assert due is not None
    assert outbox_rules.only_looked_for(work, due)


def test_the_record_is_bounded_and_its_end_always_has_room() -> None:
    work = NEW
    with pytest.raises(Refused) as refused:
        for n in range(WRITES_MAX + 1):
            work = begun(work, [Wish("answer", str(n), text="x" * 100_000)], now_ms=n)
    assert refused.value.reason == "too_many_writes"
    assert outbox_rules.is_full(work)
    work = begun(work, [Wish("close", "1"), Wish("delete", "1")], now_ms=1)
    assert len(work.writes) <= WRITES_MAX
    assert max(len(each.text or "") for each in work.writes) <= 8_000


def test_a_write_needs_a_cause_and_a_number_that_is_there() -> None:
    with pytest.raises(Invalid):
        begun(NEW, [Wish("reply", "")], now_ms=1)
    with pytest.raises(Refused) as refused:
        finished(NEW, 1, there="1", digest=None, now_ms=1)
    assert refused.value.reason == "no_such_write"


def test_work_goes_back_only_with_words_that_can_all_be_answered() -> None:
    task = handed_in()
    answers = [Wish(kind, f"old {n}", "t") for n in range(100) for kind in ("reply", "resolve")]
    work = begun(forge_of(task), answers, now_ms=1)
    task = task.with_facts(forge=work)
    words = [
        ForgeAsked.new(number=n, kind="thread", heard=f"new {n}", target="t") for n in range(1, 51)
    ]
    assert may_return(task, work, words[:35], 2)
    # Their answers could not be recorded when the owner has pushed its work.
    assert not may_return(task, work, words, 2)
    room = [Wish(kind, each.heard, "t") for each in words for kind in ("reply", "resolve")]
    with pytest.raises(Refused):
        begun(work, room, now_ms=2)


def test_a_night_is_asked_only_what_can_be_answered_with_what_is_open() -> None:
    @dataclass
    class Asking:
        asked: list[ForgeAsked]

    def words(name: str, many: int) -> list[ForgeAsked]:
        return [
            ForgeAsked.new(number=n, kind="thread", heard=f"{name} {n}", target="t")
            for n in range(1, many + 1)
        ]

    open_now = [ForgeFix.new(asked=each, task="3") for each in words("old", 100)]
    night = ForgeNight.new(n=1, at_ms=1, fixes=open_now, work=NEW)
    assert has_room(night, [Asking(words("new", 30))])
    assert not has_room(night, [Asking(words("new", 50))])
