"""Tasks that another program calls completed without what proves them done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.app.doctor import examine_records
from bullpen.app.settings import settings_from
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Task
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.check_rules import is_done, is_unproven
from bullpen.team.team import Team, Teams

CHECK = Check.new(name="tests", kind="command", run="make test")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """Task 1 has a check and is ann's, task 2 waits for it."""
    async with Teams(FileStore(tmp_path / "home", fsync=False)) as teams:
        await teams.create("crew", cwd="/")
        team = teams.open("crew")
        await team.roster.join("ann", by=LEAD)
        await team.tasks.add("One", by=LEAD, checks=[CHECK])
        await team.tasks.add("Two", by=LEAD, blocked_by=["1"])
        await team.tasks.claim("1", by="ann")
        yield team


def complete_from_outside(tmp_path: Path, **changes: object) -> None:
    """What a program does that knows the files, but not of checks."""
    path = tmp_path / "home/tasks/crew/1.json"
    raw = json.loads(path.read_bytes())
    path.write_text(json.dumps({**raw, "status": "completed", **changes}), "utf-8")


async def test_what_waits_for_an_unproven_task_goes_on_waiting(team: Team, tmp_path: Path) -> None:
    """R-7.2: completed needs the evidence, whoever writes the word."""
    complete_from_outside(tmp_path)
    assert is_unproven(await team.tasks.get("1"))
    assert [task.id for task in await team.tasks.ready()] == []
    with pytest.raises(Refused) as error:
        await team.tasks.claim("2", by=LEAD)
    assert error.value.reason == "blocked"
    with pytest.raises(Refused) as error:
        await team.agents.finish(by=LEAD, summary="All done")
    assert error.value.reason == "open_tasks"


async def test_doctor_names_an_unproven_task_and_leaves_it(team: Team, tmp_path: Path) -> None:
    complete_from_outside(tmp_path)
    settings = settings_from({"HOME": str(tmp_path)}, home=tmp_path / "home")
    (finding,) = await examine_records(settings, "crew", True)
    assert (finding.kind, finding.where) == ("unproven_task", "tasks/crew/1.json")
    assert "completed without its checks" in finding.what
    assert "'tests' did not pass" in finding.what
    assert "bullpen task done 1" in finding.action
    assert not finding.fixed
    assert (await team.tasks.get("1")).status == "completed"


async def test_an_unproven_task_is_completed_once_its_checks_have_passed(
    team: Team, tmp_path: Path
) -> None:
    complete_from_outside(tmp_path)
    with pytest.raises(Refused) as error:
        await team.tasks.done("1", by="ann")
    assert error.value.reason == "checks_missing"
    found = [CHECK.evolve(passed=True)]
    done = await team.tasks.done("1", by="ann", attempt=1, found=found)
    assert is_done(done.task)
    assert done.unblocked == ("2",)
    with pytest.raises(Refused) as error:
        await team.tasks.done("1", by="ann")
    assert error.value.reason == "already_resolved"


async def test_an_unproven_task_can_be_given_back(team: Team, tmp_path: Path) -> None:
    complete_from_outside(tmp_path)
    assert (await team.tasks.release("1", by=LEAD)).status == "pending"
    assert (await team.tasks.claim("1", by="ann")).facts.attempt == 2


async def test_a_forged_word_or_result_of_another_form_proves_nothing(
    team: Team, tmp_path: Path
) -> None:
    for facts in (
        {"attempt": 1, "checks": [{**CHECK.raw, "passed": True}]},
        {"attempt": 1, "checks": [{**CHECK.raw, "passed": True, "attempt": 0}]},
        {"attempt": 1, "checks": [{**CHECK.raw, "passed": "yes", "attempt": 1}], "forced": {}},
        {"attempt": 1, "checks": [{"name": "x", "kind": "new kind", "passed": True, "attempt": 1}]},
        {"attempt": 1, "checks": [CHECK.raw], "forced": "because"},
    ):
        complete_from_outside(tmp_path, metadata={"bullpen": facts})
        assert is_unproven(await team.tasks.get("1")), facts


def test_a_completed_task_without_checks_is_done() -> None:
    task = Task.new(id="1", subject="s", description="", status="completed")
    assert is_done(task)
    assert is_done(task.with_facts(attempt=3, checks=[]))
    assert not is_done(task.evolve(status="in_progress"))


def test_a_persons_word_proves_a_task() -> None:
    row = {"by": LEAD, "reason": "So", "atMs": 1}
    task = Task.new(id="1", subject="s", description="", status="completed")
    assert is_done(task.with_facts(attempt=1, checks=[CHECK.raw], forced=row))


async def test_an_attempt_after_a_forced_one_needs_its_own_proof(
    team: Team, tmp_path: Path
) -> None:
    await team.tasks.force("1", by=LEAD, reason="So", voice="human")
    path = tmp_path / "home/tasks/crew/1.json"
    raw = json.loads(path.read_bytes())
    path.write_text(json.dumps({**raw, "status": "pending", "owner": None}), "utf-8")
    assert (await team.tasks.claim("1", by="ann")).facts.forced is None
    complete_from_outside(tmp_path)
    assert is_unproven(await team.tasks.get("1"))
