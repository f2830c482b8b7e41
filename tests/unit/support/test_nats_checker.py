"""The check at the end of a chaos run has teeth: every kind of damage is told from a good run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutTask, PutTeam
from bullpen.testing.sample_records import message, task
from support.nats_chaos.checker import Logs, acknowledged, violations
from support.nats_chaos.diary import Note, digest
from support.rows import each_row

Damage = Callable[[list[Note], dict[str, list[Event]]], None]


def event(seq: int, op: str, *changes: Change, actor: str = "w") -> Event:
    return Event(seq, "2026-01-01T00:00:00.000Z", actor, op, changes)


def sent(number: int) -> Deliver:
    return Deliver("ann", message(f"m{number}", text=f"s {number}"))


def claimed(owner: str) -> PutTask:
    fields: dict[str, Any] = {"status": "in_progress", "owner": owner}
    return PutTask(task("1", **fields, metadata={"bullpen": {"attempt": 1}}))


def good() -> tuple[list[Note], dict[str, list[Event]]]:
    """Two messages, one claim and one count, all of it noted by whoever did it."""
    log = [
        event(1, "task.add", PutTask(task("1"))),
        event(2, "task.claim", claimed("w")),
        event(3, "message", sent(1)),
        event(4, "message", sent(2)),
        event(5, "mail.injected", MarkMail("ann", ("m1", "m2"), "injected")),
        event(6, "count.1", PutTeam({"count": 1})),
    ]
    notes: list[Note] = [
        {"kind": "commit", "team": "t", "seq": each.seq, "op": each.op, "actor": each.actor}
        | {"digest": digest(each.changes)}
        for each in log
        if each.op != "mail.injected"
    ]
    attempt = log[1].changes[0]
    assert isinstance(attempt, PutTask)
    notes.append(
        {"kind": "claimed", "team": "t", "task": "1", "by": "w"}
        | {"attempt": attempt.task.facts.attempt}
    )
    notes += [{"kind": "sent", "team": "t", "to": "ann", "id": key} for key in ("m1", "m2")]
    marked = {"kind": "marked", "team": "t", "agent": "ann", "ids": ["m1", "m2"]}
    notes.append({**marked, "state": "injected", "moved": 2})
    notes.append({"kind": "injected", "team": "t", "agent": "ann", "ids": ["m1", "m2"]})
    return notes, {"t": log}


def lose_the_last(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"].pop()


def lose_one_between(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    del logs["t"][5]
    logs["t"].append(event(7, "count.2", PutTeam({"count": 1})))


def put_another_in_its_place(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"][5] = event(6, "count.2", PutTeam({"count": 1}))


def apply_twice(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"].append(event(7, "count.1", PutTeam({"count": 2})))


def overwrite_a_count(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"].append(event(7, "count.2", PutTeam({"count": 1})))


def deliver_twice(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"].append(event(7, "message", sent(2)))


def lose_a_mark(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    notes.append({"kind": "marked", "team": "t", "agent": "ann", "ids": ["m1"], "state": "seen"})


def claim_twice(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    logs["t"].append(event(7, "task.claim", claimed("v")))


def claim_without_a_log(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    notes.append({"kind": "claimed", "team": "t", "task": "1", "by": "v", "attempt": 2})


def inject_twice(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    notes.append({"kind": "injected", "team": "t", "agent": "ann", "ids": ["m2"]})


def never_inject(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    notes[-1]["ids"] = ["m1"]


def inject_out_of_order(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    notes[-1]["ids"] = ["m2", "m1"]


def send_out_of_order(notes: list[Note], logs: dict[str, list[Event]]) -> None:
    late = Deliver("ann", message("m0", text="s 1"))
    logs["t"].append(event(7, "message", late))
    notes[-1]["ids"].append("m0")
    logs["t"].append(event(8, "mail.injected", MarkMail("ann", ("m0",), "injected")))


def test_a_good_run_is_called_good() -> None:
    notes, logs = good()
    assert list(violations(notes, logs)) == []
    assert acknowledged(notes) == 6


@each_row(
    ("damage", "words"),
    [
        (lose_the_last, "is lost"),
        (lose_one_between, "without holes"),
        (put_another_in_its_place, "not the one that was acknowledged"),
        (apply_twice, "2 times"),
        (overwrite_a_count, "counts 1"),
        (deliver_twice, "2 times"),
        (lose_a_mark, "had m1 seen is lost"),
        (claim_twice, "claims a task that is not free"),
        (claim_without_a_log, "does not know that v claimed"),
        (inject_twice, "twice"),
        (never_inject, "never got m2"),
        (inject_out_of_order, "out of order"),
        (send_out_of_order, "is out of order in t"),
    ],
)
def test_damage_is_found(damage: Damage, words: str) -> None:
    notes, logs = good()
    damage(notes, logs)
    checked: Logs = logs
    found = list(violations(notes, checked))
    assert any(words in each for each in found), found
