"""Messages and the JSON in them, field by field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from bullpen.agents.mail.message_frame import frame
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import (
    IdleNotification,
    ModeSetRequest,
    PermissionResponse,
    payload_of,
)
from bullpen.team.team import Team
from bullpen.view.news import news

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

TMUX = ProcessRecord.new(backend="tmux", host="here", pid=9, start="1", pane="%14")


def inbox(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    path = tmp_path / f"home/teams/crew/inboxes/{name}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def payloads(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(entry["text"]) for entry in inbox(tmp_path, name)]


async def runs(team: Team, name: str) -> None:
    spec = AgentSpec.new(driver="d", backend="tmux", cwd="/", prompt="Look.", mode="plan")
    await team.agents.register(name, spec, by=LEAD, nonce="n")
    await team.agents.ready(name, nonce="n", place=TMUX)


@shows("send-message")
async def test_send_message(ann: Bench, tmp_path: Path) -> None:
    await ann.ok("SendMessage", type="message", recipient="bob", content="Hi.", summary="greeting")
    (entry,) = inbox(tmp_path, "bob")
    assert {key: entry[key] for key in ("from", "text", "summary", "color", "read")} == {
        "from": "ann",
        "text": "Hi.",
        "summary": "greeting",
        "color": "blue",
        "read": False,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["timestamp"])


@shows("optional-fields")
async def test_optional_fields(team: Team, ann: Bench, lead: Bench, tmp_path: Path) -> None:
    await runs(team, "eve")
    await lead.ok("SendMessage", type="message", recipient="eve", content="a", summary="s")
    await ann.ok("SendMessage", type="message", recipient="eve", content="b", summary="s")
    await team.tasks.add("One", by=LEAD)
    await team.tasks.assign("1", "eve", by=LEAD)
    found = [{"summary", "color"} & set(entry) for entry in inbox(tmp_path, "eve")]
    # Its prompt, the lead, a teammate, an assignment.
    assert found == [set(), {"summary"}, {"summary", "color"}, set()]
    await team.approvals.ask_plan("# Plan", by="ann")
    await team.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    found = [{"summary", "color"} & set(entry) for entry in inbox(tmp_path, LEAD)]
    assert found == [set(), {"color"}]


@shows("mail-notice")
async def test_mail_notice(team: Team, ann: Bench) -> None:
    await ann.ok("SendMessage", type="message", recipient="bob", content="Hi.", summary="greeting")
    assert any("ann" in line and "greeting" in line for line in news((await team.events())[-1]))


@shows("broadcast")
async def test_broadcast(team: Team, ann: Bench, tmp_path: Path) -> None:
    said = json.loads(await ann.ok("SendMessage", type="broadcast", content="All.", summary="s"))
    assert set(said["recipients"]) == {LEAD, "bob"}
    assert said["routing"]["target"] == "@team"
    assert [len(inbox(tmp_path, name)) for name in (LEAD, "ann", "bob")] == [1, 0, 1]


@shows("send-answer")
async def test_send_answer(ann: Bench) -> None:
    text = await ann.ok(
        "SendMessage", type="message", recipient="bob", content="Hi.", summary="greeting"
    )
    said = json.loads(text)
    assert said["success"] is True
    assert said["routing"] == {
        "sender": "ann",
        "senderColor": "blue",
        "target": "@bob",
        "targetColor": "green",
        "summary": "greeting",
        "content": "Hi.",
    }


@shows("first-message")
async def test_first_message(team: Team, tmp_path: Path) -> None:
    await runs(team, "eve")
    assert inbox(tmp_path, "eve")[0]["text"] == "Look."
    assert inbox(tmp_path, "eve")[0]["from"] == LEAD


@shows("read-flag")
async def test_read_flag(team: Team, tmp_path: Path) -> None:
    await team.mailbox.send("ann", "Hi.", sender=LEAD)
    (entry,) = (await team.mailbox.read("ann")).entries
    await team.mailbox.mark("ann", [entry.id], "seen")
    assert [each["read"] for each in inbox(tmp_path, "ann")] == [True]


@shows("frame")
def test_frame() -> None:
    message = Message.new(
        sender="ann", text="Done.", summary="parser", color="blue", timestamp="t", read=False
    )
    assert frame(message, known=True) == (
        '<teammate-message teammate_id="ann" color="blue" summary="parser">\nDone.\n'
        "</teammate-message>"
    )


@shows("inbox-lock")
async def test_inbox_lock(team: Team, tmp_path: Path) -> None:
    await team.mailbox.send("ann", "One", sender=LEAD)
    lock = tmp_path / "home/teams/crew/inboxes/ann.json.lock"
    lock.mkdir()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: team.mailbox.send("ann", "Two", sender=LEAD))
        await anyio.sleep(0.3)
        assert len(inbox(tmp_path, "ann")) == 1
        lock.rmdir()
    assert [each["text"] for each in inbox(tmp_path, "ann")] == ["One", "Two"]


@shows("malformed")
def test_malformed() -> None:
    assert payload_of('{"type":"shutdown_approved"}') is None
    assert payload_of('{"type":"plan_approval_response","approved":"yes"}') is None


@shows("idle-notification")
def test_idle_notification() -> None:
    told = IdleNotification.new(
        sender="ann", timestamp="t", idle_reason="available", summary="[to bob] hello"
    )
    assert told.text() == (
        '{"type":"idle_notification","from":"ann","timestamp":"t","idleReason":"available",'
        '"summary":"[to bob] hello"}'
    )
    failed = IdleNotification.new(
        sender="ann", timestamp="t", idle_reason="failed", failure_reason="no credit"
    )
    assert json.loads(failed.text())["failureReason"] == "no credit"


@shows("shutdown")
async def test_shutdown(team: Team, lead: Bench, make_bench: Any, tmp_path: Path) -> None:
    await runs(team, "eve")
    eve = make_bench("eve")
    say = {"type": "shutdown_request", "recipient": "eve", "content": "All done"}
    for approve in (False, True):
        said = json.loads(await lead.ok("SendMessage", **say))
        assert re.fullmatch(r"shutdown-\d+@eve", said["request_id"]) and said["target"] == "eve"
        answer = {"type": "shutdown_response", "request_id": said["request_id"]}
        await eve.ok("SendMessage", **answer, approve=approve, content="busy")
        asked = payloads_of(inbox(tmp_path, "eve"))[-1]
        assert list(asked) == ["type", "requestId", "from", "reason", "timestamp"]
    no, yes = payloads(tmp_path, LEAD)
    assert list(no) == ["type", "requestId", "from", "reason", "timestamp"]
    assert (no["type"], no["reason"]) == ("shutdown_rejected", "busy")
    assert list(yes) == ["type", "requestId", "from", "timestamp", "paneId", "backendType"]
    assert (yes["type"], yes["paneId"], yes["backendType"]) == (
        *("shutdown_approved", "%14", "tmux"),
    )


def payloads_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(each["text"]) for each in entries if each["text"].startswith("{")]


@shows("plan-approval")
async def test_plan_approval(team: Team, lead: Bench, tmp_path: Path) -> None:
    await runs(team, "eve")
    for approve in (False, True):
        request = await team.approvals.ask_plan("# Plan", by="eve", plan_file_path="/p.md")
        assert re.fullmatch(r"plan_approval-\d+@eve@crew", request.id)
        answer = {"type": "plan_approval_response", "recipient": "eve", "request_id": request.id}
        await lead.ok("SendMessage", **answer, approve=approve, content="tests first")
    asked = payloads(tmp_path, LEAD)[-1]
    assert list(asked) == [
        *("type", "from", "timestamp", "planFilePath", "planContent", "requestId"),
    ]
    no, yes = payloads_of(inbox(tmp_path, "eve"))
    assert (no["approved"], no["feedback"], "permissionMode" in no) == (False, "tests first", False)
    # The mode that it is given, not a constant.
    status = await team.plans.settle("eve", nonce="n")
    assert (yes["approved"], yes["permissionMode"]) == (True, status.mode)


@shows("permission-request")
async def test_permission_request(team: Team, lead: Bench, tmp_path: Path) -> None:
    request = await team.approvals.ask_permission(
        "Bash", {"command": "ls"}, by="ann", tool_use_id="u1", description="ls", approver="lead"
    )
    assert re.fullmatch(r"perm-\d+-\w{7}", request.id)
    (asked,) = payloads(tmp_path, LEAD)
    assert list(asked)[:6] == [
        *("type", "request_id", "agent_id", "tool_name", "tool_use_id", "description"),
    ]
    assert (asked["agent_id"], asked["input"]) == ("ann", {"command": "ls"})
    answer = {"type": "permission_response", "request_id": request.id, "approve": True}
    await lead.ok("SendMessage", recipient="ann", **answer)
    (yes,) = payloads(tmp_path, "ann")
    assert (yes["type"], yes["subtype"]) == ("permission_response", "success")
    assert yes["response"]["updated_input"] == {"command": "ls"}


@shows("permission-variant")
def test_permission_variant() -> None:
    text = (
        '{"type":"permission_response","request_id":"r","decision":"approved",'
        '"resolvedBy":"team-lead","updatedInput":{"command":"ls -l"}}'
    )
    found = payload_of(text)
    assert isinstance(found, PermissionResponse)
    assert found.approved and found.updated_input == {"command": "ls -l"}


@shows("mode-set-request")
async def test_mode_set_request(team: Team, tmp_path: Path) -> None:
    await runs(team, "eve")
    await team.modes.change("eve", "acceptEdits", by=LEAD)
    told = payload_of(inbox(tmp_path, "eve")[-1]["text"])
    assert isinstance(told, ModeSetRequest) and told.mode == "acceptEdits"
    assert (await team.agents.get("eve"))[1].mode == "acceptEdits"
