"""Replaying a log gives the team that its events describe."""

from __future__ import annotations

from typing import get_args

import pytest

from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
    UnknownChange,
)
from bullpen.store.events.fold import Folded, apply, digest, fold, raw_of
from bullpen.testing.sample_records import member, message, note, request, task


def event(seq: int, *changes: Change) -> Event:
    return Event(seq, "2026-01-01T00:00:00.000Z", "team-lead", "test", changes)


def log(*changes: Change) -> list[Event]:
    return [event(seq, change) for seq, change in enumerate(changes, start=1)]


def test_no_events_give_an_empty_team() -> None:
    assert fold([]) == Folded()


def test_the_last_event_gives_the_seq() -> None:
    assert fold([event(1), event(2)]).seq == 2


def test_the_last_put_of_a_record_counts() -> None:
    folded = fold(
        log(
            PutTask(task("1")),
            PutTask(task("1", owner="ann")),
            PutMember(member("ann")),
            PutMember(member("ann", color="red")),
            PutRequest(request("r1")),
            PutRequest(request("r1", state="denied")),
        )
    )
    assert folded.tasks == {"1": task("1", owner="ann").raw}
    assert folded.members == {"ann": member("ann", color="red").raw}
    assert folded.requests == {"r1": request("r1", state="denied").raw}


def test_deleted_tasks_and_removed_members_and_requests_are_gone() -> None:
    folded = fold(
        log(
            PutTask(task("1")),
            PutMember(member("ann")),
            PutRequest(request("r1")),
            DeleteTask("1"),
            RemoveMember("ann"),
            RemoveRequest("r1"),
        )
    )
    assert (folded.tasks, folded.members, folded.requests) == ({}, {}, {})


def test_members_are_in_join_order() -> None:
    folded = fold(
        log(
            PutMember(member("ann")),
            PutMember(member("bob")),
            PutMember(member("ann", color="red")),
            PutMember(member("cleo")),
            RemoveMember("bob"),
            PutMember(member("bob")),
        )
    )
    assert list(folded.members) == ["ann", "cleo", "bob"]


def test_fields_of_the_team_are_merged_and_null_removes_one() -> None:
    folded = fold(log(PutTeam({"name": "alpha", "a": 1}), PutTeam({"b": 2}), PutTeam({"a": None})))
    assert folded.team == {"name": "alpha", "b": 2}


def test_the_changes_of_a_caller_stay_as_they_are() -> None:
    fields = {"name": "alpha"}
    fold(log(PutTeam(fields), PutTeam({"b": 2})))
    assert fields == {"name": "alpha"}


def test_mail_is_stored_until_marked() -> None:
    folded = fold(
        log(
            Deliver("ann", message("m1")),
            Deliver("ann", message("m2")),
            Deliver("bob", message("m1")),
            MarkMail("ann", ("m1",), "seen"),
        )
    )
    assert folded.mail == {"ann": {"m1": "seen", "m2": "stored"}, "bob": {"m1": "stored"}}


def test_a_message_that_came_read_is_seen() -> None:
    assert fold(log(Deliver("ann", message("m1", read=True)))).mail == {"ann": {"m1": "seen"}}


def test_a_repeated_delivery_keeps_the_state() -> None:
    deliver = Deliver("ann", message("m1"))
    folded = fold(log(deliver, MarkMail("ann", ("m1",), "injected"), deliver))
    assert folded.mail == {"ann": {"m1": "injected"}}


def test_consumed_messages_are_gone() -> None:
    folded = fold(
        log(
            Deliver("ann", message("m1")),
            Deliver("ann", message("m2")),
            MarkMail("ann", ("m1", "other"), "consumed"),
        )
    )
    assert folded.mail == {"ann": {"m2": "stored"}}


def test_archived_messages_are_known_to_be() -> None:
    folded = fold(log(Deliver("ann", message("m1")), MarkMail("ann", ("m1",), "archived")))
    assert folded.mail == {"ann": {"m1": "archived"}}


def test_marks_of_unknown_messages_are_passed_over() -> None:
    folded = fold(log(Deliver("ann", message("m1")), MarkMail("ann", ("m2",), "seen")))
    assert folded.mail == {"ann": {"m1": "stored"}}
    assert fold(log(MarkMail("bob", ("m1",), "seen"))).mail == {}


@pytest.mark.parametrize("seqs", [[2], [1, 3], [1, 1], [1, 2, 1], [0]])
def test_a_hole_or_a_repetition_is_an_error(seqs: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        fold(event(seq) for seq in seqs)


def test_an_event_that_does_not_come_next_changes_nothing() -> None:
    folded = fold(log(PutTask(task("1"))))
    with pytest.raises(ValueError, match="event 3 cannot follow event 1"):
        apply(folded, event(3, DeleteTask("1")), keep=raw_of)
    assert folded == fold(log(PutTask(task("1"))))


def test_a_ledger_keeps_digests_of_the_records_only() -> None:
    changes = PutTask(task("1")), PutMember(member("ann")), PutRequest(request("r1"))
    folded = fold(
        log(*changes, Deliver("ann", message("m1"))), keep=lambda record: digest(record.raw)
    )
    assert folded.tasks == {"1": digest(task("1").raw)}
    assert folded.members == {"ann": digest(member("ann").raw)}
    assert folded.requests == {"r1": digest(request("r1").raw)}


def test_equal_records_have_equal_digests_and_others_have_others() -> None:
    assert digest(task("1").raw) == digest(task("1").raw)
    assert digest(task("1").raw) != digest(task("1", owner="ann").raw)
    assert len(digest(task("1", subject="\ud83d").raw)) == 16


def test_every_kind_of_change_can_be_replayed() -> None:
    changes: list[Change] = [
        PutTask(task("1")),
        DeleteTask("1"),
        PutMember(member("ann")),
        RemoveMember("ann"),
        PutTeam({"name": "alpha"}),
        Deliver("ann", message("m1")),
        PutRequest(request("r1")),
        RemoveRequest("r0"),
        PutNote(note("plan")),
        MarkMail("ann", ("m1",), "seen"),
        UnknownChange({"put": "sprint"}),
    ]
    assert {type(change) for change in changes} == set(get_args(Change))
    encoded = [each.encode() for each in log(*changes)]
    assert fold(map(Event.decode, encoded)) == fold(log(*changes))
