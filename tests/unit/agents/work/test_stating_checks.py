"""Who may state what proves a task done, and who may change it."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Invalid, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.protocol.task import Check
from bullpen.team.team import Team
from support.crews import Crew, Hired

TOUCH = {"kind": "command", "run": "touch smuggled"}


async def use(desk: Desk, tool: str, **given: Any) -> tuple[str, bool]:
    return await call(toolbox(desk), tool, given, desk)


async def add(hired: Hired, *checks: dict[str, str]) -> tuple[str, bool]:
    return await use(
        hired.desk, "TaskCreate", subject="One", description="All of it", checks=list(checks)
    )


def command(run: str) -> Check:
    return Check.new(name="tests", kind="command", run=run)


async def test_an_agent_states_checks_of_every_kind(crew: Crew) -> None:
    lead = await crew.hire(LEAD)
    text, failed = await add(
        lead,
        {"kind": "command", "run": "make test", "name": "tests"},
        {"kind": "file", "path": "dist/*.whl"},
        {"kind": "commit", "ref": "main"},
        {"kind": "report"},
    )
    assert not failed, text
    task = await crew.team.tasks.get("1")
    assert [check.raw for check in task.facts.checks] == [
        {"name": "tests", "kind": "command", "run": "make test"},
        {"name": "dist/*.whl", "kind": "file", "path": "dist/*.whl"},
        {"name": "main", "kind": "commit", "ref": "main"},
        {"name": "report", "kind": "report"},
    ]
    shown, _ = await use(lead.desk, "TaskGet", taskId="1")
    assert "Check 'tests' (command: make test): not run yet" in shown


@pytest.mark.parametrize(
    "without",
    [
        {"mode": "dontAsk"},
        {"tools": ["TaskCreate", "TaskUpdate", "TaskGet"]},
        {"tools": ["TaskCreate", "TaskUpdate", "TaskGet", "Bash(git:*)"]},
        {"taken": ["Bash"]},
        {"policy": Policy.new(deny=["Bash(touch:*)"])},
    ],
    ids=str,
)
async def test_a_lead_that_cannot_run_a_command_cannot_have_it_run_as_a_check(
    crew: Crew, without: dict[str, Any]
) -> None:
    """R-4.4, R-7.2: no command is smuggled past a policy as the proof of a task."""
    without = dict(without)
    taken = without.pop("taken", None)
    lead = await crew.hire(LEAD, **without)
    lead.desk.spec = lead.desk.spec.evolve(disallowed_tools=taken)
    text, failed = await add(lead, TOUCH)
    assert failed, text
    assert "(reason: denied)" in text
    assert (await crew.team.tasks.list()).tasks == []
    await crew.team.tasks.add("One", by=LEAD)
    text, failed = await use(lead.desk, "TaskUpdate", taskId="1", checks=[TOUCH])
    assert failed, text
    assert "(reason: denied)" in text
    assert not (await crew.team.tasks.get("1")).facts.has("checks")
    assert not (await add(lead, {"kind": "report"}))[1]


@pytest.mark.parametrize("path", ["/etc/passwd", "~/.ssh/id_rsa", "../x", "a/../../x", "/**"])
async def test_an_agent_cannot_ask_for_files_outside_the_project(crew: Crew, path: str) -> None:
    lead = await crew.hire(LEAD)
    text, failed = await add(lead, {"kind": "file", "path": path})
    assert failed
    assert "is not in the project" in text


@pytest.mark.parametrize(
    "check",
    [
        {"kind": "command"},
        {"kind": "command", "run": " "},
        {"kind": "file"},
        {"kind": "command", "run": "true", "name": "a\0b"},
        {"kind": "magic"},
    ],
    ids=str,
)
async def test_a_check_that_cannot_be_one_is_refused(crew: Crew, check: dict[str, str]) -> None:
    lead = await crew.hire(LEAD)
    assert (await add(lead, check))[1]
    assert (await crew.team.tasks.list()).tasks == []


async def test_an_owner_cannot_change_or_shake_off_its_checks(crew: Crew) -> None:
    """R-7.2: nobody weakens the proof of their own work."""
    await crew.team.tasks.add("One", by=LEAD, checks=[command("false")])
    ann = await crew.hire("ann")
    await use(ann.desk, "TaskUpdate", taskId="1", status="in_progress")
    attempts: list[dict[str, Any]] = [
        {"checks": []},
        {"checks": [{"kind": "command", "run": "true"}]},
        {"status": "deleted"},
    ]
    for given in attempts:
        text, failed = await use(ann.desk, "TaskUpdate", taskId="1", **given)
        assert failed
        assert "reason: checks_fixed" in text
    text, failed = await use(
        ann.desk, "TaskUpdate", taskId="1", subject="s", metadata={"bullpen": {"checks": []}}
    )
    assert failed
    await use(ann.desk, "TaskUpdate", taskId="1", status="pending")
    assert (await use(ann.desk, "TaskUpdate", taskId="1", status="deleted"))[1], "given back first"
    assert [check.run for check in (await crew.team.tasks.get("1")).facts.checks] == ["false"]


async def test_the_lead_changes_checks_but_not_those_of_its_own_task(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[command("false")])
    await crew.team.tasks.add("Two", by=LEAD, checks=[command("false")])
    lead = await crew.hire(LEAD)
    checks = [{"kind": "command", "run": "true"}]
    text, failed = await use(lead.desk, "TaskUpdate", taskId="1", checks=checks)
    assert not failed, text
    assert "it now has 1 check" in text
    await use(lead.desk, "TaskUpdate", taskId="2", status="in_progress")
    text, failed = await use(lead.desk, "TaskUpdate", taskId="2", checks=checks)
    assert failed
    assert "checks_fixed" in text
    await crew.team.tasks.restate("2", [], by=LEAD, voice="human")
    assert (await crew.team.tasks.get("2")).facts.checks == ()


async def test_what_passed_before_a_change_of_the_checks_does_not_count(crew: Crew) -> None:
    team: Team = crew.team
    await team.tasks.add("One", by=LEAD, checks=[command("false")])
    await team.tasks.claim("1", by=LEAD)
    await team.tasks.record_checks("1", [command("false").evolve(passed=True)], by=LEAD, attempt=1)
    await team.tasks.restate("1", [command("make test")], by=LEAD, voice="human")
    with pytest.raises(Refused) as error:
        await team.tasks.done("1", by=LEAD)
    assert error.value.reason == "checks_missing"


async def test_only_a_persons_word_completes_a_task_without_its_checks(crew: Crew) -> None:
    team: Team = crew.team
    await team.tasks.add("One", by=LEAD, checks=[command("false")])
    await team.tasks.add("Two", by=LEAD, blocked_by=["1"])
    with pytest.raises(Refused) as error:
        await team.tasks.force("1", by=LEAD, reason="I say so")
    assert error.value.reason == "not_a_person"
    with pytest.raises(Invalid, match="needs a reason"):
        await team.tasks.force("1", by=LEAD, reason=" ", voice="human")
    done = await team.tasks.force("1", by=LEAD, reason="The machine is gone", voice="human")
    assert done.unblocked == ("2",)
    word = done.task.facts.forced
    assert word is not None
    assert (word.by, word.reason) == (LEAD, "The machine is gone")
    last = (await team.events())[-1]
    assert last.op == "task.force"
    assert "The machine is gone" in str(last.encode())
