"""Tasks: their fields, who claims them, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import TaskAssignment, payload_of
from bullpen.team.team import Team
from bullpen.view.agent_words import subjects_of

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")


def stored(tmp_path: Path, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / f"home/tasks/crew/{task_id}.json").read_text())
    return found


async def refusal(team: Team, task_id: str, by: str) -> str:
    with pytest.raises(Refused) as error:
        await team.tasks.claim(task_id, by=by)
    return error.value.reason


@shows("task-fields")
async def test_task_fields(ann: Bench, tmp_path: Path) -> None:
    given = {"subject": "Parse", "description": "All.", "activeForm": "Parsing"}
    await ann.ok("TaskCreate", **given, metadata={"area": "core"})
    task = stored(tmp_path, "1")
    assert (task["id"], task["status"], task["metadata"]["area"]) == ("1", "pending", "core")
    assert {key: task[key] for key in given} == given
    assert (task["blocks"], task["blockedBy"]) == ([], []) and "owner" not in task


@shows("active-form")
async def test_active_form(team: Team) -> None:
    await team.tasks.add("Parse", active_form="Parsing", by=LEAD)
    assert subjects_of(await team.snapshot()) == {"1": "Parse"}
    await team.tasks.claim("1", by="ann")
    assert subjects_of(await team.snapshot()) == {"1": "Parsing"}


@shows("task-tools")
async def test_task_tools(ann: Bench, tmp_path: Path) -> None:
    for subject in ("One", "Two"):
        await ann.ok("TaskCreate", subject=subject, description="-")
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    assert "Two" in await ann.ok("TaskGet", taskId="2")
    assert "#1" in await ann.ok("TaskList")
    assert (stored(tmp_path, "1")["status"], stored(tmp_path, "1")["owner"]) == (
        "in_progress",
        "ann",
    )


@shows("task-edges")
async def test_task_edges(ann: Bench, tmp_path: Path) -> None:
    for subject in ("One", "Two", "Three"):
        await ann.ok("TaskCreate", subject=subject, description="-")
    await ann.ok("TaskUpdate", taskId="2", addBlockedBy=["1"])
    await ann.ok("TaskUpdate", taskId="2", addBlocks=["3"])
    assert (stored(tmp_path, "1")["blocks"], stored(tmp_path, "2")["blockedBy"]) == (["2"], ["1"])
    assert (stored(tmp_path, "2")["blocks"], stored(tmp_path, "3")["blockedBy"]) == (["3"], ["2"])


@shows("unblocking")
async def test_unblocking(ann: Bench, team: Team, tmp_path: Path) -> None:
    await team.tasks.add("One", by=LEAD)
    await team.tasks.add("Two", by=LEAD, blocked_by=["1"])
    assert await refusal(team, "2", "ann") == "blocked"
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    assert "2" in await ann.ok("TaskUpdate", taskId="1", status="completed")
    # As Claude Code 2.1.41 and later do, the id stays; whether it blocks is computed.
    assert stored(tmp_path, "2")["blockedBy"] == ["1"]
    await team.tasks.claim("2", by="ann")


@shows("claim-reasons")
async def test_claim_reasons(team: Team) -> None:
    for subject in ("One", "Two", "Three"):
        await team.tasks.add(subject, by=LEAD)
    await team.tasks.add("Four", by=LEAD, blocked_by=["3"])
    await team.tasks.claim("1", by="ann")
    with pytest.raises(Exception, match="9"):
        await team.tasks.claim("9", by="bob")
    assert await refusal(team, "1", "bob") == "already_claimed"
    assert await refusal(team, "2", "ann") == "agent_busy"
    assert await refusal(team, "4", "bob") == "blocked"
    await team.tasks.done("1", by="ann")
    assert await refusal(team, "1", "bob") == "already_resolved"


@shows("claim-once")
async def test_claim_once(team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    won: list[str] = []

    async def claims(name: str) -> None:
        try:
            await team.tasks.claim("1", by=name)
        except Refused:
            return
        won.append(name)

    async with anyio.create_task_group() as group:
        for name in ("ann", "bob", LEAD):
            group.start_soon(claims, name)
    assert len(won) == 1


@shows("complete-unclaimed")
async def test_complete_unclaimed(ann: Bench, team: Team, tmp_path: Path) -> None:
    await team.tasks.add("One", by=LEAD)
    await ann.ok("TaskUpdate", taskId="1", status="completed")
    assert (stored(tmp_path, "1")["status"], stored(tmp_path, "1")["owner"]) == ("completed", "ann")


@shows("delete-any")
async def test_delete_any(lead: Bench, team: Team, tmp_path: Path) -> None:
    for subject in ("pending", "in progress", "completed"):
        await team.tasks.add(subject, by=LEAD)
    await team.tasks.add("after all", by=LEAD, blocked_by=["1", "2", "3"])
    await team.tasks.claim("2", by="ann")
    await team.tasks.claim("3", by="bob")
    await team.tasks.done("3", by="bob")
    for task_id in "123":
        await lead.ok("TaskUpdate", taskId=task_id, status="deleted")
        assert not (tmp_path / f"home/tasks/crew/{task_id}.json").exists()
    assert stored(tmp_path, "4")["blockedBy"] == []


@shows("no-way-back")
async def test_no_way_back(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    await ann.ok("TaskUpdate", taskId="1", status="completed")
    await ann.refused("TaskUpdate", taskId="1", status="pending")
    assert (await team.tasks.get("1")).status == "completed"


@shows("assignment")
async def test_assignment(lead: Bench, team: Team) -> None:
    await team.tasks.add("One", description="All.", by=LEAD)
    await lead.ok("TaskUpdate", taskId="1", owner="ann")
    (entry,) = (await team.mailbox.read("ann")).entries
    assert isinstance(payload_of(entry.message.text), TaskAssignment)
    assert list(json.loads(entry.message.text)) == [
        *("type", "taskId", "subject", "description", "assignedBy", "timestamp"),
    ]
    assert not {"summary", "color"} & set(entry.message.raw)


@shows("unassigned-at-the-end")
async def test_unassigned_at_the_end(team: Team, tmp_path: Path) -> None:
    spec = AgentSpec.new(driver="d", backend="in-process", cwd="/")
    await team.agents.register("eve", spec, by=LEAD, nonce="n")
    await team.agents.ready("eve", nonce="n", place=PLACE)
    await team.tasks.add("One", by=LEAD)
    await team.tasks.claim("1", by="eve")
    await team.agents.end("eve", "stopped", by=LEAD, nonce="n")
    assert stored(tmp_path, "1")["status"] == "pending" and "owner" not in stored(tmp_path, "1")
    (told,) = (await team.mailbox.read(LEAD)).entries
    assert "#1" in told.message.text
