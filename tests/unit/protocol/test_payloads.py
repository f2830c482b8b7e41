"""Payloads inside message texts: every type, every variant, and what is no payload at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bullpen.protocol import payloads
from bullpen.protocol.payloads import Payload, payload_of
from support.rows import each_row

ISO = "2026-11-14T22:47:12.537Z"
PLAN_ID = "plan_approval-1794696426856@alice@lab-team"
CALL = {"tool_use_id": "toolu_1", "tool_name": "Bash", "input_digest": "5" * 64}

# Each as some version writes it, or as the first reports describe it: field for field, in order.
KNOWN: dict[str, tuple[type[Payload], dict[str, Any]]] = {
    "task assignment": (
        payloads.TaskAssignment,
        {
            "type": "task_assignment",
            "taskId": "1",
            "subject": "Build",
            "description": "all of it",
            "assignedBy": "team-lead",
            "timestamp": ISO,
        },
    ),
    "idle": (
        payloads.IdleNotification,
        {
            "type": "idle_notification",
            "from": "alice",
            "timestamp": ISO,
            "idleReason": "available",
            "summary": "[to bob] hello",
            "result": "done",
        },
    ),
    "idle while mail waits": (
        payloads.IdleNotification,
        {"type": "idle_notification", "from": "alice", "timestamp": ISO, "result": "done"},
    ),
    "idle after a failure": (
        payloads.IdleNotification,
        {
            "type": "idle_notification",
            "from": "alice",
            "timestamp": ISO,
            "idleReason": "failed",
            "failureReason": "API Error: 400",
        },
    ),
    "idle with a completed task": (
        payloads.IdleNotification,
        {
            "type": "idle_notification",
            "from": "alice",
            "timestamp": ISO,
            "completedTaskId": "3",
            "completedStatus": "success",
        },
    ),
    "shutdown request": (
        payloads.ShutdownRequest,
        {
            "type": "shutdown_request",
            "requestId": "shutdown-1@alice",
            "from": "team-lead",
            "reason": "all done",
            "timestamp": ISO,
        },
    ),
    "shutdown approved": (
        payloads.ShutdownApproved,
        {
            "type": "shutdown_approved",
            "requestId": "shutdown-1@alice",
            "from": "alice",
            "timestamp": ISO,
            "paneId": "%1",
            "backendType": "tmux",
        },
    ),
    "shutdown approved without a pane": (
        payloads.ShutdownApproved,
        {
            "type": "shutdown_approved",
            "requestId": "shutdown-1@alice",
            "from": "alice",
            "timestamp": ISO,
        },
    ),
    "shutdown rejected": (
        payloads.ShutdownRejected,
        {
            "type": "shutdown_rejected",
            "requestId": "shutdown-1@alice",
            "from": "alice",
            "reason": "still busy",
            "timestamp": ISO,
        },
    ),
    "plan": (
        payloads.PlanApprovalRequest,
        {
            "type": "plan_approval_request",
            "from": "alice",
            "timestamp": ISO,
            "planFilePath": "/plans/plan.md",
            "planContent": "# Plan",
            "requestId": PLAN_ID,
        },
    ),
    "plan approved": (
        payloads.PlanApprovalResponse,
        {
            "type": "plan_approval_response",
            "requestId": PLAN_ID,
            "approved": True,
            "timestamp": ISO,
            "permissionMode": "default",
            "planDigest": "1" * 64,
        },
    ),
    "plan rejected": (
        payloads.PlanApprovalResponse,
        {
            "type": "plan_approval_response",
            "requestId": PLAN_ID,
            "approved": False,
            "feedback": "add tests",
            "timestamp": ISO,
        },
    ),
    "permission request": (
        payloads.PermissionRequest,
        {
            "type": "permission_request",
            "request_id": "perm-1-abcdefg",
            "agent_id": "alice",
            "tool_name": "Bash",
            "tool_use_id": "toolu_1",
            "description": "List files",
            "input": {"command": "ls"},
            "permission_suggestions": [{"type": "addRules"}],
        },
    ),
    "permission granted": (
        payloads.PermissionResponse,
        {
            "type": "permission_response",
            "request_id": "perm-1-abcdefg",
            "subtype": "success",
            "tool_use_id": "toolu_1",
            "approved_request": CALL,
            "response": {"updated_input": {"command": "ls"}},
        },
    ),
    "permission denied": (
        payloads.PermissionResponse,
        {
            "type": "permission_response",
            "request_id": "perm-1-abcdefg",
            "subtype": "error",
            "tool_use_id": "toolu_1",
            "approved_request": CALL,
            "error": "Permission denied",
        },
    ),
    "permission granted, as 2.1.41": (
        payloads.PermissionResponse,
        {
            "type": "permission_response",
            "request_id": "perm-1-abcdefg",
            "subtype": "success",
            "response": {"updated_input": {"command": "ls"}, "permission_updates": []},
        },
    ),
    "permission granted, as first described": (
        payloads.PermissionResponse,
        {
            "type": "permission_response",
            "request_id": "perm-1-abcdefg",
            "decision": "approved",
            "resolvedBy": "leader",
            "updatedInput": {"command": "ls"},
        },
    ),
    "permission denied, as first described": (
        payloads.PermissionResponse,
        {
            "type": "permission_response",
            "request_id": "perm-1-abcdefg",
            "decision": "rejected",
            "resolvedBy": "leader",
            "feedback": "not on my machine",
        },
    ),
    "task completed": (
        payloads.TaskCompleted,
        {
            "type": "task_completed",
            "from": "alice",
            "taskId": "1",
            "taskSubject": "Build",
            "timestamp": ISO,
        },
    ),
    "control": (
        payloads.Control,
        {
            "type": "bullpen_control",
            "action": "stop",
            "from": "team-lead",
            "reason": "the goal changed",
            "timestamp": ISO,
        },
    ),
    "mode": (
        payloads.ModeSetRequest,
        {"type": "mode_set_request", "mode": "plan", "from": "team-lead", "timestamp": ISO},
    ),
    "terminated": (
        payloads.TeammateTerminated,
        {"type": "teammate_terminated", "message": "alice has shut down."},
    ),
}


def compact(raw: Any) -> str:
    return json.dumps(raw, separators=(",", ":"), ensure_ascii=False)


def parsed(raw: dict[str, Any]) -> Payload:
    payload = payload_of(compact(raw))
    assert payload is not None
    return payload


def permission(**fields: Any) -> payloads.PermissionResponse:
    raw = {"type": "permission_response", "request_id": "perm-1-abcdefg", **fields}
    return payloads.PermissionResponse.parse(raw)


@each_row("name", KNOWN)
def test_a_payload_is_known_by_its_type_and_kept_to_the_letter(name: str) -> None:
    kind, raw = KNOWN[name]
    payload = parsed(raw)
    assert type(payload) is kind
    assert payload.text() == compact(raw)
    for field, key in kind.field_keys().items():
        assert getattr(payload, field) == raw.get(key, getattr(kind, field, None)), field


@each_row("name", KNOWN)
def test_a_payload_made_by_us_has_the_field_order_of_the_real_program(name: str) -> None:
    kind, raw = KNOWN[name]
    keys = kind.field_keys()
    made = kind.new(**{field: raw[key] for field, key in keys.items() if key in raw})
    assert made.text() == compact(raw)
    assert made == parsed(raw)


def test_every_known_type_has_an_example() -> None:
    assert {kind for kind, _ in KNOWN.values()} == set(payloads.Known.__args__)


@each_row("name", KNOWN)
def test_fields_nobody_knows_survive_in_their_place(name: str) -> None:
    kind, raw = KNOWN[name]
    extended = {"first": [1, {"b": None, "a": 1}], **raw, "last": "x"}
    payload = parsed(extended)
    assert type(payload) is kind
    assert payload.text() == compact(extended)


@each_row("name", KNOWN)
def test_a_payload_without_one_of_its_required_fields_is_text(name: str) -> None:
    kind, raw = KNOWN[name]
    required = [key for field, key in kind.field_keys().items() if not hasattr(kind, field)]
    assert required
    for key in required:
        broken = {k: v for k, v in raw.items() if k != key}
        assert payload_of(compact(broken)) is None, key
        assert payload_of(compact({**raw, key: {"not": "this"}})) is None, key


@each_row(
    "text",
    [
        "",
        "hello",
        "null",
        "[]",
        '"shutdown_request"',
        "{}",
        "{",
        '{"type"}',
        '{"type": null}',
        '{"type": 1}',
        '{"type": ["shutdown_request"]}',
        '{"type": "unheard_of", "from": "x"}',
        '{"type": "Shutdown_Request"}',
        '{"type": "teammate_terminated", "message": "x"} and more',
        '{"type": "teammate_terminated", "message": "cut off',
        '{"type": "teammate_terminated", "message": NaN}',
        '{"a":' * 5000 + "1" + "}" * 5000,
        "I think: " + '{"type": "teammate_terminated", "message": "x"}',
    ],
)
def test_anything_else_is_text_for_a_reader(text: str) -> None:
    assert payload_of(text) is None


def test_a_payload_may_be_cut_inside_an_emoji() -> None:
    text = '{"type":"teammate_terminated","message":"cut \ud83d"}'
    payload = payload_of(text)
    assert isinstance(payload, payloads.TeammateTerminated)
    assert payload.message == "cut \ud83d"
    assert payload.text() == '{"type":"teammate_terminated","message":"cut \\ud83d"}'


def test_a_permission_is_granted_by_success_or_by_the_decision() -> None:
    granted = permission(subtype="success", response={"updated_input": {"command": "ls -l"}})
    assert granted.approved
    assert granted.updated_input == {"command": "ls -l"}
    assert granted.why_not is None
    described = permission(decision="approved", updatedInput={"command": "ls -l"})
    assert described.approved
    assert described.updated_input == {"command": "ls -l"}


def test_a_permission_is_denied_with_its_reason() -> None:
    denied = permission(subtype="error", error="Permission denied")
    assert not denied.approved
    assert denied.why_not == "Permission denied"
    described = permission(decision="rejected", feedback="not now")
    assert not described.approved
    assert described.why_not == "not now"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response": {"updated_input": {}}},
        {"subtype": "error", "decision": "approved"},
        {"subtype": "success", "decision": "rejected"},
        {"resolvedBy": "leader"},
    ],
)
def test_a_permission_answer_that_is_unclear_is_a_no(fields: dict[str, Any]) -> None:
    assert not permission(**fields).approved


@pytest.mark.parametrize("subtype", ["Success", "ok", True, ""])
def test_a_permission_answer_of_an_unknown_subtype_is_no_answer(subtype: object) -> None:
    raw = {"type": "permission_response", "request_id": "p", "subtype": subtype}
    assert payload_of(compact(raw)) is None


@pytest.mark.parametrize("approved", ["true", "yes", 1, "1", None, [], 1.0])
def test_only_true_approves_a_plan(approved: object) -> None:
    raw = {"type": "plan_approval_response", "requestId": PLAN_ID, "approved": approved}
    assert payload_of(compact(raw)) is None


def test_a_plan_answer_may_say_approve_as_the_tool_input_does() -> None:
    payload = parsed({"type": "plan_approval_response", "requestId": PLAN_ID, "approve": True})
    assert isinstance(payload, payloads.PlanApprovalResponse)
    assert payload.approved


def test_a_plan_may_come_without_a_request_id() -> None:
    payload = parsed(
        {"type": "plan_approval_request", "from": "alice", "timestamp": ISO, "planContent": "# P"}
    )
    assert isinstance(payload, payloads.PlanApprovalRequest)
    assert payload.request_id is None
