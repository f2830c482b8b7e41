"""What a runner does for an agent whose model forgets: to report, to complete, to answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from support.crews import Crew, eventually

from .test_quiet import in_simulation

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)
ASKED = "You completed task #1 without a report"


async def completed(crew: Crew, task_id: str = "1") -> bool:
    return (await crew.team.tasks.get(task_id)).status == "completed"


async def update(desk: Desk, **given: str) -> str:
    text, _ = await call(toolbox(desk), "TaskUpdate", given, desk)
    return text


async def test_an_agent_that_completed_a_task_without_a_word_is_asked_for_a_report(
    crew: Crew,
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        if ASKED in given.text:
            return "It was the cache."
        if desk.attempts:
            await update(desk, taskId="1", status="completed")
        return ""

    alice = await crew.hire("alice", turn, claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: len(alice.turns) == 2)
    await anyio.sleep(0.3)
    assert [ASKED in text for text in alice.turns] == [False, True], "once"
    box = await crew.team.mailbox.read(LEAD)
    assert any("It was the cache." in entry.message.text for entry in box.entries)


async def test_whoever_reports_in_the_turn_or_with_the_task_is_not_asked(crew: Crew) -> None:
    async def says(given: TurnInput, desk: Desk) -> str:
        await update(desk, taskId="1", status="completed")
        return "It was the cache."

    async def states(given: TurnInput, desk: Desk) -> str:
        await update(desk, taskId="2", status="completed", report="It was a race.")
        return ""

    bob = await crew.hire("bob", states, claims=True)
    alice = await crew.hire("alice", says, claims=True)
    await crew.team.tasks.add("alice: one", by=LEAD)
    await crew.team.tasks.add("bob: two", by=LEAD)
    await eventually(lambda: completed(crew, "1"))
    await eventually(lambda: completed(crew, "2"))
    await anyio.sleep(0.3)
    assert len(alice.turns) == len(bob.turns) == 1


async def test_a_model_that_calls_no_tools_completes_a_task_by_the_line_it_is_shown(
    crew: Crew,
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        if "end your answer with the line: Task #1 completed" in given.text:
            return "I looked at all files.\nTask #1 completed"
        return "Task #1 completed"

    alice = await crew.hire("alice", turn, claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: completed(crew))
    assert len(alice.turns) == 2, "before it was shown the line, the line means nothing"
    task = await crew.team.tasks.get("1")
    assert task.facts.report == "I looked at all files.\nTask #1 completed"
    assert [row["name"] for row in alice.told("tool")] == ["TaskUpdate"], "by the gate"


async def test_what_does_not_pass_its_checks_is_not_completed_by_a_word(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        return "Task #1 completed"

    check = Check.new(name="there", kind="file", path="there.txt")
    await crew.team.tasks.add("One", by=LEAD, checks=[check])
    alice = await crew.hire("alice", turn, claims=True)

    async def given_back() -> bool:
        return (await crew.team.tasks.get("1")).facts.gave_back == ["alice"]

    await eventually(given_back)
    assert not await completed(crew)
    assert "checks_failed" in alice.turns[2], "it is told why"
    assert len(alice.turns) == 4


async def test_an_agent_in_plan_mode_is_reminded_to_submit_its_plan(crew: Crew) -> None:
    alice = await crew.hire("alice", claims=True, mode="plan")
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: len(alice.turns) == 2)
    assert "submit your plan with ExitPlanMode" in alice.turns[1]
    assert "TaskUpdate" not in alice.turns[1].partition("</team-digest>")[2]


def test_a_lead_that_leaves_a_request_unanswered_is_reminded_a_few_times(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=PACE)
        await crew.hire("alice", pace=PACE, mode="plan")
        await crew.team.approvals.ask_plan(
            "Read, then write.", by="alice", deadline_s=3600, approver="lead"
        )
        await anyio.sleep(1000)
        asked = ["Waiting for your answer (SendMessage): plan request" in t for t in lead.turns]
        assert asked == [False, True, True, True, True]

    in_simulation(tmp_path, body)


def test_a_new_member_leaves_what_fits_nobody_until_its_lead_has_spawned_the_others(
    tmp_path: Path,
) -> None:
    """The one that fits better may come in the same turn of the lead."""

    async def finishes(given: TurnInput, desk: Desk) -> str:
        for task_id in list(desk.attempts):
            await update(desk, taskId=task_id, status="completed", report="done")
        return "done"

    async def body(crew: Crew) -> None:
        async def spawns(given: TurnInput, desk: Desk) -> str:
            if "Go" in given.text:
                await crew.team.tasks.add("Review for tests", by=LEAD)
                await crew.hire("security-reviewer", finishes, claims=True, pace=PACE)
                await anyio.sleep(20)
                await crew.hire("tests-reviewer", finishes, claims=True, pace=PACE)
            return "I wait."

        await crew.hire(LEAD, spawns, prompt="Go", pace=PACE)
        await anyio.sleep(30)
        assert (await crew.team.tasks.get("1")).owner == "tests-reviewer"

    in_simulation(tmp_path, body)


def test_a_new_member_does_not_wait_for_a_lead_that_works_on_and_on(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        async def works(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep(3000)
            return ""

        await crew.hire(LEAD, works, prompt="Go", pace=PACE)
        await crew.team.tasks.add("One", by=LEAD)
        alice = await crew.hire("alice", claims=True, pace=PACE)
        await anyio.sleep(PACE.form_s - 5)
        assert alice.turns == []
        await anyio.sleep(10)
        assert len(alice.turns) >= 1

    in_simulation(tmp_path, body)


def test_an_agent_whose_plan_waits_for_an_answer_is_neither_handed_a_task_nor_reminded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return function(*args)

    # Simulated time would go on while a thread writes the plan.
    monkeypatch.setattr("anyio.to_thread.run_sync", at_once)

    async def submits(given: TurnInput, desk: Desk) -> str:
        if "Rejected" not in given.text:
            await desk.submit_plan("Read, then write.")
        return "I wait."

    async def body(crew: Crew) -> None:
        await crew.hire(LEAD, pace=PACE)
        alice = await crew.hire("alice", submits, claims=True, mode="plan", pace=PACE)
        await crew.team.tasks.add("One", by=LEAD)
        await anyio.sleep(500)
        await crew.team.tasks.add("Two", by=LEAD)
        await anyio.sleep(50)
        assert len(alice.turns) == 1
        # The plan is rejected when its deadline passes, and she goes on.
        await anyio.sleep(600)
        assert len(alice.turns) > 1
        assert "Plan Rejected" in alice.turns[1]

    in_simulation(tmp_path, body)
