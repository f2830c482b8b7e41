"""A teammate completes a task that it did not claim: one commit, or nothing."""

from __future__ import annotations

import pytest

from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from support.agents.completing import complete
from support.crews import Crew

REPORT = Check.new(name="report", kind="report")


async def test_an_unclaimed_task_is_claimed_and_completed_in_one_commit(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[REPORT])
    ann = await crew.hire("ann")
    before = len(await crew.team.events())
    text, failed = await complete(ann, report="It works.")
    assert (failed, text.startswith("Updated task #1: completed")) == (False, True)
    task = await crew.team.tasks.get("1")
    assert (task.status, task.owner, task.facts.attempt) == ("completed", "ann", 1)
    events = (await crew.team.events())[before:]
    assert [event.op for event in events if event.op.startswith("task.")] == ["task.done"]


async def test_an_unclaimed_task_whose_checks_fail_stays_as_it_was(crew: Crew) -> None:
    before = await crew.team.tasks.add("One", by=LEAD, checks=[REPORT])
    ann = await crew.hire("ann")
    text, failed = await complete(ann)
    assert failed and "(reason: checks_failed)" in text
    assert await crew.team.tasks.get("1") == before


async def test_an_unclaimed_task_that_a_hook_refuses_stays_as_it_was(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await crew.team.tasks.add("One", by=LEAD)
    ann = await crew.hire("ann")

    async def no(_: object) -> str:
        return "no tests"

    monkeypatch.setattr(ann.desk.hooks, "task_completed", no)
    text, failed = await complete(ann)
    assert failed and "no tests" in text
    assert await crew.team.tasks.get("1") == before
