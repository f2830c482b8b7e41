"""What is read as the type of a field, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bullpen.protocol.agent import Budget, Usage
from bullpen.protocol.payloads import PlanApprovalResponse
from bullpen.protocol.record import Wire, field
from bullpen.protocol.task import Check, Facts, Merge, Task
from bullpen.protocol.team import Member, MergeSettings, Origin, TeamConfig, Unattended
from support.rows import each_row

TASK = {"id": "1", "subject": "s", "description": "d"}
SETTINGS = {"repository": "/x", "target": "main"}


def refusal(kind: type[Wire], raw: dict[str, Any]) -> str:
    with pytest.raises(ValueError) as refused:
        kind.parse(raw)
    return str(refused.value)


@each_row(
    ("value", "read"),
    [
        (5, 5),
        (5.0, 5),
        (True, 1),
        ("5", 5),
        ("+5", 5),
        (" 5\n", 5),
        ("5\N{NO-BREAK SPACE}", 5),
        ("5.00", 5),
        ("1_000", 1000),
        ("007", 7),
        (2**70, 2**70),
        (float(2**62), 2**62),
    ],
)
def test_other_spellings_of_an_integer_are_read(value: Any, read: int) -> None:
    found = Usage.parse({"turns": value}).turns
    assert (found, type(found)) == (read, int)


@each_row(
    "value",
    [
        5.5, 1e20, math.inf, math.nan, "", "5.", "5.5", "1e3", "1__0", "_1", "0x5", "\u0663",
        "5 .0", "9" * 5000, "\ud83d", None, [], {},
    ],
)  # fmt: skip
def test_what_is_not_an_integer_is_refused(value: Any) -> None:
    assert refusal(Usage, {"turns": value}).startswith("turns: ")


@pytest.mark.parametrize(
    ("value", "read"),
    [(5, 5.0), (True, 1.0), ("5", 5.0), (" .5 ", 0.5), ("1e3", 1000.0), ("inf", math.inf)],
)
def test_other_spellings_of_a_number_are_read(value: Any, read: float) -> None:
    found = Usage.parse({"costUsd": value}).cost_usd
    assert (found, type(found)) == (read, float)


@each_row("value", ["", "5,5", "\u0663", "0x5", "\ud83d", 10**400, None, [], {}])
def test_what_is_not_a_number_is_refused(value: Any) -> None:
    assert refusal(Usage, {"costUsd": value}).startswith("costUsd: ")


@pytest.mark.parametrize(
    ("value", "read"),
    [(5, 5), (5.0, 5.0), (5.5, 5.5), ("5", 5), ("5.5", 5.5), (True, 1), (None, None)],
)
def test_of_two_types_the_one_that_fits_is_read(value: Any, read: Any) -> None:
    found = Member.parse({"name": "a", "joinedAt": value}).joined_at
    assert (found, type(found)) == (read, type(read))


@each_row("value", [True, 1, 1.0, "1", "on", "t", "TRUE", "y", "Yes"])
def test_other_spellings_of_true_are_read(value: Any) -> None:
    assert Member.parse({"name": "a", "isActive": value}).is_active is True


@each_row("value", [False, 0, 0.0, "0", "off", "F", "false", "n", "No"])
def test_other_spellings_of_false_are_read(value: Any) -> None:
    assert Member.parse({"name": "a", "isActive": value}).is_active is False


@each_row("value", [2, 0.5, math.nan, "", " true", "2", "\ud83d", [], {}])
def test_what_is_not_true_or_false_is_refused(value: Any) -> None:
    assert refusal(Member, {"name": "a", "isActive": value}).startswith("isActive: ")


@pytest.mark.parametrize("value", [1, 0, "true", "yes", None])
def test_an_approval_and_a_proof_are_true_or_false_only(value: Any) -> None:
    assert "approved" in refusal(PlanApprovalResponse, {"approved": value})
    assert "complete" in refusal(Origin, {"file": "f", "digest": "d", "complete": value})


@each_row(
    ("kind", "raw", "words"),
    [
        (Task, {**TASK, "id": ""}, "id: String should have at least 1 character"),
        (Task, {**TASK, "id": 1}, "id: Input should be a valid string"),
        (Task, {"id": "1", "subject": "s"}, "description: Field required"),
        (Task, {**TASK, "blocks": ["a", 3]}, "blocks.1: Input should be a valid string"),
        (Task, {**TASK, "blocks": "a"}, "blocks: Input should be a valid list"),
        (Task, {**TASK, "metadata": []}, "metadata: Input should be a valid dictionary"),
        (Budget, {"usd": 0}, "usd: Input should be greater than 0"),
        (Budget, {"usd": math.inf}, "usd: Input should be a finite number"),
        (Unattended, {"stallS": math.nan}, "stallS: Input should be greater than 0"),
        (Unattended, {"nudges": -1}, "nudges: Input should be greater than or equal to 0"),
        (
            MergeSettings,
            {**SETTINGS, "batch": 65},
            "batch: Input should be less than or equal to 64",
        ),
        (
            Check,
            {"name": "a", "kind": "x"},
            "kind: Input should be 'command', 'file', 'report', 'commit' or 'review'",
        ),
        (
            Facts,
            {"checks": [{"name": "a", "kind": "file"}, {"name": "b"}]},
            "checks.1.kind: Field required",
        ),
        (Facts, {"forced": []}, "forced: Input should be a valid dictionary"),
        (TeamConfig, {"teamName": 3}, "teamName: Input should be a valid string"),
        (TeamConfig, {"name": None, "teamName": "x"}, "name: Input should be a valid string"),
        (TeamConfig, {}, "name: Field required"),
    ],
)
def test_a_refusal_has_the_path_of_the_field_and_the_reason(
    kind: type[Wire], raw: dict[str, Any], words: str
) -> None:
    assert refusal(kind, raw) == words


def test_the_first_wrong_field_in_canonical_order_is_named() -> None:
    assert refusal(Task, {"metadata": 1, "subject": 2, "id": "1"}).startswith("subject: ")


@pytest.mark.parametrize("damage", [0, 5.5, True, "text", [1], {"what": 1}])
def test_whatever_a_damaged_part_is_the_rest_is_read(damage: Any) -> None:
    facts = Facts.parse({"attempt": 2, "merge": damage})
    assert (facts.attempt, facts.merge, facts.raw["merge"]) == (2, None, damage)
    merge = {"state": "queued", "order": 1, "commit": "c", "base": "b", "ref": "r", "by": "a"}
    assert Merge.parse({**merge, "attempt": 1, "atMs": 1, "steps": damage}).steps == []


def test_fields_are_copies_that_can_change_without_the_json_object() -> None:
    raw = {**TASK, "blocks": ["2"], "metadata": {"a": 1}}
    task = Task.parse(raw)
    task.blocks.append("3")
    assert task.metadata is not None
    task.metadata["b"] = 2
    assert (raw["blocks"], raw["metadata"]) == (["2"], {"a": 1})
    assert Task.parse(TASK).blocks is not Task.parse(TASK).blocks


def test_stated_fields_are_those_given_or_found() -> None:
    assert Budget.new(turns=None, usd=1).stated_fields == {"turns", "usd"}
    assert Unattended.new().stated_fields == set()
    assert Unattended.parse({"stallS": 1, "other": 2}).stated_fields == {"stall_s"}


class _Old(Wire):
    first: str
    a_number: int = field(default=3, ge=1)


class _Newer(_Old):
    a_number: int = 4
    last_one: str | None = field(default=None, key="LAST")


def test_a_record_has_the_fields_of_the_one_it_extends_first() -> None:
    assert dict(_Newer.field_keys()) == {
        "first": "first",
        "a_number": "aNumber",
        "last_one": "LAST",
    }
    assert _Newer.new(first="x", last_one="y").raw == {"first": "x", "aNumber": 4, "LAST": "y"}
    assert _Newer.parse({"first": "x", "aNumber": 0}).a_number == 0
    assert refusal(_Old, {"first": "x", "aNumber": 0}).startswith("aNumber: ")
