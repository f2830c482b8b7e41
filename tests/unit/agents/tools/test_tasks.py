"""Task tools: what they do to the shared list, and what they say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bullpen.agents.tools.task_tools import LEASE_S
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check

if TYPE_CHECKING:
    from bullpen.team.team import Team
    from support.agents.tools_fixtures import Bench


async def test_a_task_is_created_shown_and_listed(ann: Bench) -> None:
    text = await ann.ok(
        "TaskCreate", subject="Write it", description="All of it", activeForm="Writing"
    )
    assert text == "Task #1 created successfully: Write it"
    await ann.ok("TaskCreate", subject="Check it", description="Twice", addBlockedBy=["#1"])
    assert await ann.ok("TaskList") == (
        "#1 [pending] Write it\n#2 [pending] Check it [blocked by #1]"
    )
    await ann.ok("TaskUpdate", taskId=1, status="in_progress")
    shown = await ann.ok("TaskGet", taskId="1")
    assert shown == (
        "Task #1: Write it\nStatus: in_progress\nOwner: ann\nDescription: All of it\nBlocks: #2"
    )
    await ann.ok("TaskUpdate", taskId="1", status="completed")
    assert await ann.ok("TaskList") == "#1 [completed] Write it (ann)\n#2 [pending] Check it"


async def test_an_empty_list_and_an_unreadable_task_are_told_apart(ann: Bench, team: Team) -> None:
    assert await ann.ok("TaskList") == "No tasks found"
    await team.tasks.add("Broken", by=LEAD)
    (path,) = (ann.cwd.parent / "home" / "tasks" / "crew").glob("1.json")
    path.write_text("{")
    assert "Cannot read" in await ann.ok("TaskList")


@pytest.mark.parametrize("claim", [{"status": "in_progress"}, {"owner": "ann"}])
async def test_a_claim_is_kept_with_its_attempt_and_its_lease(
    ann: Bench, team: Team, claim: dict[str, str]
) -> None:
    await team.tasks.add("One", by=LEAD)
    before = now_ms()
    assert "claimed by you" in await ann.ok("TaskUpdate", taskId="1", **claim)
    task = await team.tasks.get("1")
    assert (task.status, task.owner) == ("in_progress", "ann")
    assert ann.desk.attempts == {"1": 1}
    assert task.facts.lease_until_ms is not None
    assert task.facts.lease_until_ms - before >= LEASE_S * 1000
    # Models often say it twice.
    assert "already yours" in await ann.ok(
        "TaskUpdate", taskId="1", status="in_progress", owner="ann"
    )
    assert (await team.tasks.get("1")).facts.attempt == 1


async def test_refusals_come_with_their_reason_and_what_to_do(
    ann: Bench, bob: Bench, team: Team
) -> None:
    """R-7.3: the same rules as everywhere, through the tool."""
    await team.tasks.add("One", by=LEAD)
    await team.tasks.add("Two", by=LEAD, blocked_by=["1"])
    await team.tasks.add("Three", by=LEAD)
    await bob.ok("TaskUpdate", taskId="1", status="in_progress")
    taken = await ann.refused("TaskUpdate", taskId="1", status="in_progress")
    assert "reason: already_claimed" in taken
    assert "TaskList" in taken
    assert "reason: blocked" in await ann.refused("TaskUpdate", taskId="2", status="in_progress")
    busy = await bob.refused("TaskUpdate", taskId="3", status="in_progress")
    assert "reason: agent_busy" in busy
    assert "status pending" in busy
    assert "'also'" not in busy
    gone = await ann.refused("TaskUpdate", taskId="9", status="in_progress")
    assert "reason: task_not_found" in gone
    assert "reason: not_owner" in await ann.refused("TaskUpdate", taskId="1", status="completed")
    assert "reason: cycle" in await ann.refused("TaskUpdate", taskId="1", addBlockedBy=["2"])
    assert "has no task '9'" in await ann.refused("TaskGet", taskId="9")


async def test_a_task_that_asks_for_a_report_takes_it_from_the_tool(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD, checks=[Check.new(name="says", kind="report")])
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    missing = await ann.refused("TaskUpdate", taskId="1", status="completed")
    assert "checks_missing" in missing
    assert "`report`" in missing
    await ann.ok("TaskUpdate", taskId="1", status="completed", report="All is well")
    assert (await team.tasks.get("1")).facts.report == "All is well"
    assert "Report: All is well" in await ann.ok("TaskGet", taskId="1")


async def test_completing_says_what_it_unblocked(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    await team.tasks.add("Two", by=LEAD, blocked_by=["1"])
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    assert "unblocked #2" in await ann.ok("TaskUpdate", taskId="1", status="completed")


async def test_a_task_is_given_back_assigned_and_deleted(
    ann: Bench, lead: Bench, team: Team
) -> None:
    await team.tasks.add("One", by=LEAD)
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    await ann.ok("TaskUpdate", taskId="1", status="pending")
    assert ann.desk.attempts == {}
    assert (await team.tasks.get("1")).owner is None
    assert "already pending" in await ann.ok("TaskUpdate", taskId="1", status="pending")
    assert "assigned to bob" in await lead.ok("TaskUpdate", taskId="1", owner="bob@crew")
    (entry,) = (await team.mailbox.read("bob")).unread
    assert json.loads(entry.message.text)["type"] == "task_assignment"
    assert json.loads(entry.message.text)["assignedBy"] == LEAD
    await lead.ok("TaskUpdate", taskId="1", status="pending", owner="ann")
    assert (await team.tasks.get("1")).owner == "ann"
    assert "no member" in await lead.refused("TaskUpdate", taskId="1", owner="zoe")
    assert "Only 'bob'" in await lead.refused(
        "TaskUpdate", taskId="1", status="in_progress", owner="bob"
    )
    await lead.ok("TaskUpdate", taskId="1", status="deleted")
    assert await lead.ok("TaskList") == "No tasks found"


async def test_several_changes_in_one_call_are_all_made(ann: Bench, team: Team) -> None:
    for subject in ("One", "Two", "Three"):
        await team.tasks.add(subject, by=LEAD)
    text = await ann.ok(
        "TaskUpdate",
        taskId="1",
        subject="First",
        description="Now with words",
        addBlocks=["2", "#3"],
        status="in_progress",
    )
    for part in ("changed subject, description", "#2 depends on it, #3 depends", "claimed by you"):
        assert part in text
    task = await team.tasks.get("1")
    assert (task.subject, task.blocks, task.owner) == ("First", ["2", "3"], "ann")


async def test_an_error_says_what_was_done_before_it(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    await team.tasks.add("Two", by=LEAD)
    text = await ann.refused(
        "TaskUpdate", taskId="2", subject="Second", addBlockedBy=["1"], status="in_progress"
    )
    assert "reason: blocked" in text
    assert "Done before the error: changed subject; it depends on #1." in text
    text = await ann.refused("TaskUpdate", taskId="1", addBlocks=["2", "7"])
    assert "Done before the error: #2 depends on it." in text
    text = await ann.refused("TaskUpdate", taskId="1", subject="First", owner="zoe")
    assert "no member 'zoe'" in text
    assert "Done before the error: changed subject." in text


async def test_an_update_without_a_change_is_refused(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    nothing = await ann.refused("TaskUpdate", taskId="1")
    assert "changes nothing" in nothing and "`status`" in nothing
