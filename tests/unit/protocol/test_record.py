"""Records keep what they do not know, and change only what they are told to change."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.protocol import json_text, names
from bullpen.protocol.message import Message
from bullpen.protocol.payloads import IdleNotification, PermissionResponse, PlanApprovalRequest
from bullpen.protocol.presence import Presence
from bullpen.protocol.record import Wire
from bullpen.protocol.request import Request
from bullpen.protocol.task import Check, Facts, Task
from bullpen.protocol.team import Member, TeamConfig
from support.rows import each_row

ISO = "2026-11-14T22:47:12.537Z"

REQUIRED: dict[type[Wire], dict[str, Any]] = {
    Task: {"id": "1", "subject": "Build", "description": ""},
    Member: {"name": "alice"},
    TeamConfig: {"name": "lab-team"},
    Message: {"from": "alice", "text": "hello"},
    Request: {"id": "r", "kind": "plan", "from": "alice", "to": "team-lead", "createdMs": 1},
    Presence: {"agent": "alice", "sinceMs": 1, "beatMs": 2},
    Check: {"name": "tests", "kind": "command"},
    Facts: {},
    IdleNotification: {"type": "idle_notification", "from": "alice", "timestamp": ISO},
    PlanApprovalRequest: {
        "type": "plan_approval_request",
        "from": "alice",
        "timestamp": ISO,
        "planContent": "# Plan",
    },
    PermissionResponse: {"type": "permission_response", "request_id": "p"},
}

# One field of each record and a value of the right type, to be set where there was none or another.
SETTABLE: dict[type[Wire], dict[str, Any]] = {
    Task: {"owner": "zoe", "status": "completed", "blocked_by": ["7"], "subject": "s"},
    Member: {"is_active": True, "color": "red", "joined_at": 5, "cwd": "/x"},
    TeamConfig: {"description": "d", "created_at": 5, "lead_process": {"pid": 1}},
    Message: {"read": True, "summary": "s", "msg_id": "m", "text": "t"},
    Request: {"state": "denied", "answered_by": "bob", "answer": {"a": 1}},
    Presence: {"state": "working", "detail": "d", "pid": 1},
    Check: {"passed": True, "detail": "d"},
    Facts: {"attempt": 2, "report": "r"},
    IdleNotification: {"result": "r", "idle_reason": "failed"},
    PlanApprovalRequest: {"request_id": "p", "plan_content": "c"},
    PermissionResponse: {"subtype": "success", "error": "e"},
}

any_text = st.text(st.characters(exclude_categories=[]), max_size=8)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def known_names(kind: type[Wire]) -> set[str]:
    return {*kind.field_keys().values(), "teamName", "approve"}


@st.composite
def objects(draw: st.DrawFn) -> tuple[type[Wire], dict[str, Any]]:
    """A JSON object with what a record needs and anything beside it, in any order."""
    kind = draw(st.sampled_from(list(REQUIRED)))
    strange = draw(st.dictionaries(any_text, any_json, max_size=5))
    python_names = draw(st.sets(st.sampled_from(sorted(kind.field_keys())), max_size=2))
    strange |= dict.fromkeys(python_names, "a Python name is no field name")
    extra = [(key, value) for key, value in strange.items() if key not in known_names(kind)]
    pairs = draw(st.permutations([*copy.deepcopy(REQUIRED[kind]).items(), *extra]))
    return kind, dict(pairs)


def in_order(value: Any) -> str:
    return json.dumps(value)


def without(raw: dict[str, Any], key: str) -> str:
    return in_order({name: value for name, value in raw.items() if name != key})


@given(objects())
def test_parsing_and_dumping_is_the_identity(case: tuple[type[Wire], dict[str, Any]]) -> None:
    kind, raw = case
    before = in_order(raw)
    record = kind.parse(raw)
    assert in_order(record.raw) == before
    assert record.dump() == json_text.dumps(raw)
    assert kind.parse(record.raw) == record
    assert hash(kind.parse(dict(reversed(raw.items())))) == hash(record)


@given(objects(), st.data())
def test_setting_one_field_keeps_all_others_and_their_order(
    case: tuple[type[Wire], dict[str, Any]], data: st.DataObject
) -> None:
    kind, raw = case
    name = data.draw(st.sampled_from(sorted(SETTABLE[kind])))
    value = SETTABLE[kind][name]
    key = kind.field_keys()[name]
    before = in_order(raw)
    record = kind.parse(raw)
    changed = record.evolve(**{name: value})
    assert changed.raw[key] == value
    assert getattr(changed, name) == value
    assert without(changed.raw, key) == without(raw, key)
    if key in raw:
        assert list(changed.raw) == list(raw)
    assert in_order(record.raw) == before, "the old record must not change"


@given(objects(), st.data())
def test_setting_an_optional_field_and_removing_it_gives_the_first_bytes_again(
    case: tuple[type[Wire], dict[str, Any]], data: st.DataObject
) -> None:
    kind, raw = case
    optional = [name for name in SETTABLE[kind] if hasattr(kind, name)]
    name = data.draw(st.sampled_from(sorted(optional)))
    record = kind.parse(raw)
    assert record.evolve(**{name: SETTABLE[kind][name]}).evolve(**{name: None}).dump() == (
        record.dump()
    )


@each_row("kind", REQUIRED)
def test_a_record_without_a_required_field_is_refused_by_name(kind: type[Wire]) -> None:
    for name, key in kind.field_keys().items():
        if not hasattr(kind, name):
            raw = {k: v for k, v in REQUIRED[kind].items() if k != key}
            with pytest.raises(ValueError, match=f"{key}: "):
                kind.parse(raw)


@pytest.mark.parametrize("raw", [None, [], "text", 3, True, [{"name": "alice"}]])
def test_only_an_object_is_a_record(raw: Any) -> None:
    with pytest.raises(ValueError, match="expected an object"):
        Member.parse(raw)


def test_a_field_spelt_as_in_python_is_an_unknown_field() -> None:
    task = Task.parse({**REQUIRED[Task], "blocked_by": ["1"], "blockedBy": []})
    assert task.blocked_by == []
    with pytest.raises(ValueError, match="from: "):
        Message.parse({"sender": "eve", "text": "I am not from anybody"})


def test_a_value_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="blockedBy"):
        Task.parse({**REQUIRED[Task], "blockedBy": "1"})
    with pytest.raises(ValueError, match="status"):
        Task.parse({**REQUIRED[Task], "status": 1})
    with pytest.raises(ValueError, match="id"):
        Task.parse({**REQUIRED[Task], "id": 1})
    with pytest.raises(ValueError, match="status"):
        Task.parse(REQUIRED[Task]).evolve(status="done")


def test_none_removes_a_field_and_is_never_written() -> None:
    task = Task.parse({**REQUIRED[Task], "owner": "zoe"}).evolve(owner=None, active_form=None)
    assert task.raw == REQUIRED[Task]
    assert b"null" not in Message.new(sender="a", text="t", summary=None, color=None).dump()


def test_a_required_field_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="subject"):
        Task.parse(REQUIRED[Task]).evolve(subject=None)


def test_a_null_that_somebody_else_wrote_stays_until_the_field_is_set() -> None:
    task = Task.parse({**REQUIRED[Task], "owner": None})
    assert task.owner is None
    assert task.evolve(status="completed").raw["owner"] is None
    assert task.evolve(owner="zoe").raw == {**REQUIRED[Task], "owner": "zoe"}


def test_an_absent_field_goes_where_the_real_program_has_it() -> None:
    task = Task.parse(
        {
            "id": "1",
            "subject": "s",
            "description": "d",
            "status": "pending",
            "blocks": [],
            "blockedBy": [],
            "x": 1,
        }
    )
    assert list(task.evolve(active_form="Building").raw) == [
        "id", "subject", "description", "activeForm", "status", "blocks", "blockedBy", "x",
    ]  # fmt: skip
    # After everything that may stand before it, unknown fields included.
    assert list(task.evolve(metadata={"k": 1}).raw)[-2:] == ["x", "metadata"]
    message = Message.parse({"from": "a", "text": "t", "timestamp": ISO, "read": False})
    assert list(message.evolve(color="blue", summary="s", msg_v=1, type="message").raw) == [
        "from", "text", "summary", "timestamp", "color", "msgV", "type", "read",
    ]  # fmt: skip


def test_several_changes_at_once_are_each_in_place() -> None:
    task = Task.parse(REQUIRED[Task]).evolve(blocked_by=("2",), status="in_progress", owner="zoe")
    assert list(task.raw) == ["id", "subject", "description", "status", "owner", "blockedBy"]
    assert task.raw["blockedBy"] == ["2"]


def test_a_new_message_has_the_fields_and_order_of_the_newest_version() -> None:
    message = Message.new(
        sender="alice",
        text="hello",
        summary="greeting",
        timestamp=ISO,
        color="blue",
        msg_v=1,
        msg_id="m",
        type="message",
    )
    assert list(message.raw) == [
        "from", "text", "summary", "timestamp", "color", "msgV", "msg_id", "type", "read",
    ]  # fmt: skip


def test_a_new_member_has_the_fields_and_order_of_version_2_1_41() -> None:
    member = Member.new(
        agent_id="alice@lab-team",
        name="alice",
        agent_type="general-purpose",
        model="m",
        prompt="p",
        color="blue",
        plan_mode_required=False,
        joined_at=1794696426856,
        tmux_pane_id="",
        cwd="/x",
        subscriptions=[],
        backend_type="in-process",
        is_active=True,
    )
    assert list(member.raw) == [
        "agentId", "name", "agentType", "model", "prompt", "color", "planModeRequired", "joinedAt",
        "tmuxPaneId", "cwd", "subscriptions", "backendType", "isActive",
    ]  # fmt: skip


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        setattr(Task.parse(REQUIRED[Task]), "owner", "zoe")  # noqa: B010


def test_equal_records_are_equal_in_any_key_order_and_hash_alike() -> None:
    one = Task.parse({"id": "1", "subject": "s", "description": "d", "metadata": {"n": 1}})
    two = Task.parse({"metadata": {"n": 1.0}, "description": "d", "subject": "s", "id": "1"})
    assert one == two
    assert hash(one) == hash(two)
    assert one != one.evolve(subject="t")
    assert Task.parse(REQUIRED[Task]) != Check.new(name="1", kind="report")


def test_a_value_that_nests_too_deeply_is_refused_before_it_is_in_a_record() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ValueError, match="metadata: nested too deeply"):
        Task.new(id="1", subject="s", description="d", metadata={"deep": deep})
    with pytest.raises(ValueError, match="metadata: nested too deeply"):
        Task.parse(REQUIRED[Task]).evolve(metadata={"deep": deep})


def test_a_value_that_json_cannot_have_is_refused_before_it_is_in_a_record() -> None:
    with pytest.raises(ValueError, match="metadata: object is not a type of JSON"):
        Task.new(id="1", subject="s", description="d", metadata={"x": [object()]})


def test_a_record_as_deep_as_allowed_can_be_read_from_its_file() -> None:
    deep: Any = 1
    for _ in range(179):
        deep = [deep]
    task = Task.new(id="1", subject="s", description="d", metadata={"deep": deep})
    assert Task.parse(json_text.loads(task.dump())) == task


def test_half_an_emoji_in_any_field_survives_a_rewrite() -> None:
    data = rb"""{
  "from": "alice",
  "text": "cut \ud83d",
  "timestamp": "",
  "\udc00": [
    "\ud83d"
  ],
  "read": false
}"""
    message = Message.parse(json_text.loads(data))
    assert message.dump() == data
    assert message.evolve(read=True).dump() == data.replace(b"false", b"true")


def test_a_message_without_an_id_gets_one_from_its_content() -> None:
    raw = {"from": "alice", "text": "cut \ud83d", "timestamp": ISO, "read": False}
    message = Message.parse(raw)
    assert message.id.startswith("sha-")
    assert message.id == message.evolve(read=True).id
    assert message.id != message.evolve(text="cut").id
    assert message.evolve(msg_id="given").id == "given"


def test_the_simplified_config_is_read_and_kept() -> None:
    raw = {
        "teamName": "chat",
        "description": "d",
        "members": [{"name": "assistant", "agentId": "assistant@chat", "agentType": "claude-code"}],
    }
    config = TeamConfig.parse(raw)
    assert config.name == "chat"
    assert [member.name for member in config.roster] == ["assistant"]
    changed = config.with_member(Member.new(name="bob"))
    assert list(changed.raw) == ["teamName", "description", "members"]
    assert changed.name == "chat"


def test_a_bad_row_is_reported_and_kept_while_the_rest_is_read() -> None:
    rows = [{"name": "team-lead"}, None, {"name": ""}, "x", {"name": "bob", "joinedAt": "soon"}]
    config = TeamConfig.parse({"name": "t", "members": [*rows, {"name": "alice"}]})
    assert [member.name for member in config.roster] == ["team-lead", "alice"]
    assert [index for index, _ in config.bad_rows] == [1, 2, 3, 4]
    changed = config.with_member(Member.new(name="zoe")).without_member("alice")
    assert changed.members[:5] == rows
    assert [member.name for member in changed.roster] == ["team-lead", "zoe"]


def test_a_member_is_replaced_in_its_place() -> None:
    config = TeamConfig.parse({"name": "t", "members": [{"name": "a"}, {"name": "b", "x": 1}]})
    bob = config.member("b")
    assert bob is not None
    changed = config.with_member(bob.evolve(color="red"))
    assert in_order(changed.members) == in_order(
        [
            {"name": "a"},
            {"name": "b", "x": 1, "color": "red"},
        ]
    )
    assert config.member("nobody") is None
    assert "members" not in config.header
    assert [member.is_lead for member in config.roster] == [False, False]
    assert Member.new(name="team-lead").is_lead


def test_facts_of_another_program_are_not_trusted() -> None:
    for junk in ("junk", [1], {"attempt": "many"}, {"attempt": -1.5}):
        task = Task.parse({**REQUIRED[Task], "metadata": {"bullpen": junk, "k": "v"}})
        assert task.facts == Facts.new() or task.facts.raw == {}
        assert (task.facts.attempt, task.facts.checks) == (0, ())
        assert task.evolve(status="completed").raw["metadata"] == {"bullpen": junk, "k": "v"}


def test_damaged_checks_are_one_that_has_not_passed() -> None:
    for junk in ([{"name": "x"}], [3], "none", {"passed": True}):
        facts = {"attempt": 3, "leaseUntilMs": 9, "checks": junk}
        task = Task.parse({**REQUIRED[Task], "metadata": {"bullpen": facts}})
        assert (task.facts.attempt, task.facts.lease_until_ms) == (3, 9)
        (check,) = task.facts.checks
        assert not check.passed


def test_a_record_can_be_copied_and_sent_to_another_process() -> None:
    task = Task.parse({**REQUIRED[Task], "unknown": [1]})
    assert copy.copy(task) == copy.deepcopy(task) == pickle.loads(pickle.dumps(task)) == task


def test_facts_keep_their_checks_in_order() -> None:
    checks = [{"name": "tests", "kind": "command", "run": "make"}, {"name": "r", "kind": "report"}]
    task = Task.parse(REQUIRED[Task]).with_facts(checks=checks, attempt=1)
    assert [check.name for check in task.facts.checks] == ["tests", "r"]
    again = task.with_facts(attempt=2).facts
    assert [check.raw for check in again.checks] == again.raw["checks"] == checks


def test_tasks_sort_by_number_and_then_by_text() -> None:
    ids = ["10", "9", "abc", "2", "9" * 5000, "b"]
    tasks = [Task.parse({**REQUIRED[Task], "id": task_id}) for task_id in ids]
    in_id_order = [task.id for task in sorted(tasks, key=lambda task: names.task_order(task.id))]
    assert in_id_order == ["2", "9", "10", "9" * 5000, "abc", "b"]


def test_internal_tasks_are_told_by_their_metadata() -> None:
    assert Task.parse({**REQUIRED[Task], "metadata": {"_internal": True}}).is_internal
    assert not Task.parse({**REQUIRED[Task], "metadata": {"k": 1}}).is_internal


def test_a_heartbeat_is_believed_until_it_is_too_old_or_says_the_end() -> None:
    presence = Presence.new(agent="a", state="working", since_ms=0, beat_ms=1_000, ttl_ms=500)
    assert presence.alive(1_500)
    assert not presence.alive(1_501)
    for state in ("stopped", "failed", "lost"):
        assert not presence.evolve(state=state).alive(1_000)


def test_only_the_member_that_changed_is_parsed_again() -> None:
    rows = [{"name": name, "bullpen": {"x": 1}} for name in ("team-lead", "ann", "bob")]
    team = TeamConfig.parse({"name": "crew", "members": rows})
    ann = team.roster[1].evolve(model="m")
    after = team.with_member(ann)
    assert after.member("bob") is team.member("bob")
    assert after.member("ann") is ann
    assert after == TeamConfig.parse({"name": "crew", "members": [rows[0], ann.raw, rows[2]]})
    assert [each.raw for each in after.roster] == after.members
    assert team.member("ann") != ann
