"""R-7.2 in a real runner: the runtime looks for the evidence, and what it finds decides."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.work.proving import Proving
from bullpen.doors.actions.task_by_hand import task_door
from bullpen.doors.actions.task_proof import proving
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.policy import Policy
from bullpen.protocol.task import Check, Task
from bullpen.team.tasks.rules import Done
from support.agents.completing import at_work, command, complete, use
from support.crews import Crew, eventually

if TYPE_CHECKING:
    from bullpen.team.team import Team
    from support.agents.checks_fixtures import Project

Said = list[tuple[str, bool]]


async def test_done_without_the_artefact_is_refused_and_accepted_with_it(crew: Crew) -> None:
    """R-7.2: agent claims done without the artefact: refused."""
    checks = [
        command("echo 2 of 40 fail; test -e passes"),
        Check.new(name="out.txt", kind="file", path="out.txt"),
        Check.new(name="says", kind="report"),
    ]
    await crew.team.tasks.add("One", by=LEAD, checks=checks)
    ann = await at_work(crew)
    text, failed = await complete(ann)
    assert failed
    assert "reason: checks_failed" in text
    for part in (
        "is not done: 3 of its 3 checks failed",
        "'tests' (command: echo 2 of 40 fail; test -e passes) failed: exit code 1\n2 of 40 fail",
        "there is no out.txt",
        "no report was given",
    ):
        assert part in text
    task = await crew.team.tasks.get("1")
    assert (task.status, task.owner) == ("in_progress", "ann")
    assert [(each.passed, each.attempt) for each in task.facts.checks] == [(False, 1)] * 3
    folder = Path(ann.desk.spec.cwd)
    (folder / "passes").touch()
    (folder / "out.txt").write_text("x")
    text, failed = await complete(ann, report="All is well")
    assert not failed, text
    task = await crew.team.tasks.get("1")
    assert task.status == "completed"
    assert all(each.passed and each.at_ms for each in task.facts.checks)
    assert [row["passed"] for row in ann.told("check")] == [False] * 3 + [True] * 3


async def test_all_checks_are_run_also_after_one_that_failed(crew: Crew) -> None:
    checks = [command("false", "first"), command("touch ran", "second")]
    await crew.team.tasks.add("One", by=LEAD, checks=checks)
    ann = await at_work(crew)
    text, _ = await complete(ann)
    assert "1 of its 2 checks failed" in text
    assert "'second'" not in text
    assert (Path(ann.desk.spec.cwd) / "ran").exists()


async def test_a_result_of_an_older_attempt_does_not_count(crew: Crew) -> None:
    """R-7.2, R-7.4: what passed in an older attempt proves nothing about this one."""
    check = command("test -e passes")
    await crew.team.tasks.add("One", by=LEAD, checks=[check])
    ann = await at_work(crew)
    passes = Path(ann.desk.spec.cwd) / "passes"
    passes.touch()
    proving = Proving(crew.team, "ann", ann.desk, _no_hooks, str, _nobody)
    assert (await proving.check("1")).facts.checks[0].passed
    passes.unlink()
    await crew.team.tasks.release("1", by=LEAD)
    await at_work(crew, "bob")
    with pytest.raises(Refused) as error:
        await crew.team.tasks.done("1", by="bob", attempt=2)
    assert error.value.reason == "checks_missing"
    found = check.evolve(passed=True)
    with pytest.raises(Refused) as error:
        await crew.team.tasks.record_checks("1", [found], by="ann", attempt=1)
    assert error.value.reason == "stale_attempt"


async def _no_hooks(task: Task) -> str | None:
    return None


def _nobody(check: Check) -> None:
    pass


async def test_a_task_taken_over_while_its_check_ran_is_not_completed(crew: Crew) -> None:
    """R-7.4: the owner of before is told, and what it found is not recorded."""
    line = "touch begun; while [ ! -e go ]; do sleep 0.05; done"
    await crew.team.tasks.add("One", by=LEAD, checks=[command(line)])
    ann = await at_work(crew)
    folder = Path(ann.desk.spec.cwd)
    said: Said = []

    async def try_it() -> None:
        said.append(await complete(ann))

    async with anyio.create_task_group() as group:
        group.start_soon(try_it)
        await eventually((folder / "begun").exists)
        await crew.team.tasks.release("1", by=LEAD)
        await at_work(crew, "bob")
        (folder / "go").touch()
    ((text, failed),) = said
    assert failed
    assert "stale_attempt" in text
    task = await crew.team.tasks.get("1")
    assert (task.status, task.owner, task.facts.attempt) == ("in_progress", "bob", 2)
    assert task.facts.checks[0].passed is None


async def test_of_a_completion_and_a_release_at_the_same_time_one_wins(
    crew: Crew, project: Project
) -> None:
    """R-7.4: racing completion and release: never completed and given back."""
    await crew.team.roster.join("ann", by=LEAD)
    winners = set()
    for number in range(1, 17):
        task_id = str(number)
        await crew.team.tasks.add("One", by=LEAD, checks=[command("true")])
        await crew.team.tasks.claim(task_id, by="ann")
        proving = Proving(crew.team, "ann", project, _no_hooks, str, _nobody)
        won: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_noted, won, "done", proving, task_id)
            group.start_soon(_released, won, crew.team, task_id, 1.5**number / 1000)
        task = await crew.team.tasks.get(task_id)
        assert len(won) == 1
        assert task.status == ("completed" if won == ["done"] else "pending")
        winners.update(won)
    assert winners == {"done", "released"}, "the race was none"


async def _noted(won: list[str], word: str, proving: Proving, task_id: str) -> None:
    try:
        done: Done = await proving.complete(task_id, attempt=1)
    except Refused as error:
        assert error.reason in ("not_claimed", "not_owner", "stale_attempt")
    else:
        assert done.task.status == "completed"
        won.append(word)


async def _released(won: list[str], team: Team, task_id: str, after_s: float) -> None:
    await anyio.sleep(after_s)
    try:
        await team.tasks.release(task_id, by=LEAD)
    except Refused as error:
        assert error.reason == "already_resolved"
    else:
        won.append("released")


async def test_a_stop_ends_a_check_at_once_and_leaves_the_task_open(crew: Crew) -> None:
    """R-7.2: a check that sleeps is cut by the order to stop; nothing of it is recorded."""
    await crew.team.tasks.add("One", by=LEAD, checks=[command("echo $$ > pid; exec sleep 995")])

    async def turn(given: TurnInput, desk: Desk) -> str:
        await use(desk, "TaskUpdate", taskId="1", status="in_progress")
        await use(desk, "TaskUpdate", taskId="1", status="completed")
        raise AssertionError("the turn went on")

    ann = await crew.hire("ann", turn, prompt="Go")
    pid = Path(ann.desk.spec.cwd) / "pid"
    await eventually(lambda: pid.exists() and pid.read_text().endswith("\n"))
    assert "check tests" in (ann.desk.activity.detail or "")
    with anyio.fail_after(45):
        order = Control.new(action="stop", sender=LEAD, reason="enough")
        await crew.team.mailbox.send("ann", order.text(), sender=LEAD)
        await eventually(lambda: ann.ended is not None)
    await eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
    task = await crew.team.tasks.get("1")
    assert task.status != "completed"
    assert task.facts.checks[0].passed is None


async def test_checks_that_were_changed_while_they_ran_have_not_passed(crew: Crew) -> None:
    line = "touch begun; while [ ! -e go ]; do sleep 0.05; done"
    await crew.team.tasks.add("One", by=LEAD, checks=[command(line)])
    ann = await at_work(crew)
    folder = Path(ann.desk.spec.cwd)
    said: Said = []

    async def try_it() -> None:
        said.append(await complete(ann))

    async with anyio.create_task_group() as group:
        group.start_soon(try_it)
        await eventually((folder / "begun").exists)
        await crew.team.tasks.restate("1", [command("false")], by=LEAD)
        (folder / "go").touch()
    ((text, failed),) = said
    assert failed
    assert "reason: checks_missing" in text
    assert (await crew.team.tasks.get("1")).status == "in_progress"


async def test_a_commit_of_this_attempt_proves_a_task(
    crew: Crew, project: Project, tmp_path: Path
) -> None:
    """R-7.2: the commit id is looked for by the runtime, in the agent's own repository."""
    checks = [Check.new(name="commit", kind="commit")]
    await crew.team.tasks.add("One", by=LEAD, checks=checks)
    project.path = tmp_path / "agents"
    old = project.commit("Old", when="2024-01-01T00:00:00Z")
    ann = await at_work(crew)
    assert "names no commit" in (await complete(ann, report="I committed it"))[0]
    assert "before the task was claimed" in (await complete(ann, report=f"It is {old}"))[0]
    made = project.commit("New")
    text, failed = await complete(ann, report=f"It is {made[:9]}")
    assert not failed, text


def gate(command: str) -> dict[str, Any]:
    return {"TaskCompleted": [{"hooks": [{"type": "command", "command": command}]}]}


async def test_a_hook_has_the_last_word(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[command("true")])
    line = "test -e monday || { echo not on a Friday >&2; exit 2; }"
    ann = await at_work(crew, hooks=gate(line))
    text, failed = await complete(ann)
    assert failed
    assert "not on a Friday (reason: hook_refused)" in text
    task = await crew.team.tasks.get("1")
    assert (task.status, task.facts.checks[0].passed) == ("in_progress", True)
    (Path(ann.desk.spec.cwd) / "monday").touch()
    assert not (await complete(ann))[1]


async def test_a_hook_is_not_asked_about_a_task_whose_checks_fail(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[command("false")])
    ann = await at_work(crew, hooks=gate("touch asked"))
    assert "checks_failed" in (await complete(ann))[0]
    assert not (Path(ann.desk.spec.cwd) / "asked").exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_a_check_runs_in_the_sandbox_of_the_agent(
    crew: Crew, project: Project, tmp_path: Path
) -> None:
    """R-7.2, R-4.2: a check can touch no more than the agent that made what it looks at."""
    outside = Path("/var/tmp") / f"bullpen-f-{os.getpid()}"
    checks = [
        command(f"touch {outside}", "outside"),
        command("touch inside", "inside"),
        Check.new(name="commit", kind="commit", ref="main"),
    ]
    await crew.team.tasks.add("One", by=LEAD, checks=checks)
    project.commit()
    ann = await at_work(crew, policy=Policy.new(sandbox={}), cwd=project.path)
    ann.desk.env = {"PATH": os.environ["PATH"]}
    project.commit()
    text, failed = await complete(ann)
    assert not failed, text
    assert (project.path / "inside").exists()
    assert not outside.exists()


async def test_a_person_has_checks_run_where_the_agent_works_that_owns_the_task(
    crew: Crew, project: Project, tmp_path: Path
) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[command("pwd")])
    await at_work(crew, cwd=project.path)
    door = task_door(
        crew.team,
        by=LEAD,
        cwd=str(tmp_path),
        env={**project.env, "HOME": str(tmp_path)},
        home=tmp_path / "home",
        warn=str,
        agent=None,
    )
    for cwd, expected in ((None, project.path), (str(tmp_path), tmp_path)):
        proof = await proving(door, "1", cwd=cwd, tell=_nobody)
        (found,) = (await proof.check("1")).facts.checks
        assert found.detail == f"exit code 0\n{expected}"
