"""Decisions that follow each other before the first is stored change nothing that others see."""

from __future__ import annotations

import copy

import pytest

from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)
from bullpen.store.nats.log.state import LogState
from bullpen.testing.sample_records import member, message, request, task

CHANGES: list[Change] = [
    PutTask(task("1", subject="Changed")),
    PutTask(task("7")),
    DeleteTask("2"),
    PutMember(member("bob")),
    PutMember(member("ann", cwd="/elsewhere")),
    RemoveMember("ann"),
    PutTeam({"description": "Changed", "name": None}),
    PutRequest(request("q2")),
    RemoveRequest("q1"),
    Deliver("ann", message("m3")),
    Deliver("bob", message("m4")),
    MarkMail("ann", ("m1",), "injected"),
    MarkMail("ann", ("m1", "m2"), "seen"),
    MarkMail("ann", ("m1",), "archived"),
    MarkMail("ann", ("m2",), "consumed"),
]


def event(seq: int, *changes: Change) -> Event:
    return Event(seq, "2026-01-01T00:00:00.000Z", "team-lead", "test", changes)


@pytest.fixture
def kept() -> LogState:
    state = LogState()
    state.apply(
        event(
            1,
            PutTeam({"name": "alpha"}),
            PutMember(member("team-lead")),
            PutMember(member("ann")),
            PutTask(task("1")),
            PutTask(task("2")),
            PutRequest(request("q1")),
            Deliver("ann", message("m1")),
            Deliver("ann", message("m2")),
        )
    )
    # Decisions parse what they look at.
    state.tasks()
    state.requests()
    return state


def facts(state: LogState) -> object:
    return copy.deepcopy(
        (
            state.snapshot(),
            {key: found.raw for key, found in state.tasks().items()},
            {key: found.raw for key, found in state.requests().items()},
            {agent: {key: m.raw for key, m in box.items()} for agent, box in state.bodies.items()},
            state.touched,
            state.next_task_id,
        )
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_branch_is_the_team_after_an_event_and_the_team_itself_stays(
    kept: LogState, change: Change
) -> None:
    before = facts(kept)
    branch = kept.branch()
    branch.apply_ahead(event(2, change))
    assert facts(kept) == before
    kept.apply(event(2, change))
    assert branch.snapshot() == kept.snapshot()
    assert branch.tasks() == kept.tasks()
    assert branch.next_task_id == kept.next_task_id


def test_all_changes_one_after_another(kept: LogState) -> None:
    before = facts(kept)
    branch = kept.branch()
    for seq, change in enumerate(CHANGES, start=2):
        branch.apply_ahead(event(seq, change))
    assert facts(kept) == before
    for seq, change in enumerate(CHANGES, start=2):
        kept.apply(event(seq, change))
    assert branch.snapshot() == kept.snapshot()
