"""R-7.2 with agents in processes of their own: refused without the artefact, killed in a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.system import processes
from bullpen.agents.system.transcript import rows
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from support.crews import eventually
from support.offices import Place, kill, pid_of

if TYPE_CHECKING:
    from support.agents.checks_fixtures import Project


KINDS = {
    "command": (
        Check.new(name="it", kind="command", run="echo '3 of 40 fail'; grep -q well out.txt"),
        "exit code 2\n3 of 40 fail",
        "echo all is well > out.txt",
    ),
    "file": (
        Check.new(name="it", kind="file", path="out.txt"),
        "there is no out.txt",
        "echo something > out.txt",
    ),
    "report": (Check.new(name="it", kind="report"), "no report was given", "true"),
    "commit": (
        Check.new(name="it", kind="commit", ref="main"),
        "was made before the task was claimed",
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m New",
    ),
}

SCRIPT = """
[[agents.alice.turns]]
when = "start"
steps = [
  {{ tool = "TaskUpdate", input = {{ taskId = "1", status = "in_progress" }} }},
  {{ tool = "TaskUpdate", input = {{ taskId = "1", status = "completed" }}, may_fail = true }},
  {{ tool = "Bash", input = {{ command = "{make}" }} }},
  {{ tool = "TaskUpdate", input = {{ taskId = "1", status = "completed", report = "Done" }} }},
]
"""


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_that_claims_done_without_the_artefact_is_refused(
    place: Place, project: Project, kind: str
) -> None:
    """R-7.2: agent claims done without the artefact: refused; once it is there, accepted."""
    check, missing, make = KINDS[kind]
    project.commit("Old", when="2024-01-01T00:00:00Z")
    await place.team.tasks.add("One", by=LEAD, checks=[check])
    await place.spawn("alice", SCRIPT.format(make=make), prompt="Begin")

    async def completed() -> bool:
        return (await place.team.tasks.get("1")).status == "completed"

    await eventually(completed, within_s=40)
    transcript = (await place.supervisor.starter.folder("alice")) / "transcript.jsonl"

    def results() -> list[dict[str, Any]]:
        return [row for row in rows(transcript) if row["kind"] == "result"]

    await eventually(lambda: len(results()) == 4)
    _, refused, _, accepted = results()
    assert refused["error"]
    assert missing in refused["text"]
    assert "The task stays open. (reason: checks_failed)" in refused["text"]
    assert not accepted["error"]
    (found,) = (await place.team.tasks.get("1")).facts.checks
    assert (found.passed, found.attempt) == (True, 1)


async def test_kill_9_in_the_middle_of_a_check_leaves_the_task_open(place: Place) -> None:
    """R-7.2: no half record, and what the check ran is found and ended."""
    checks = [
        Check.new(name="first", kind="command", run="true"),
        Check.new(name="second", kind="command", run="echo $$ > pid; exec sleep 994"),
    ]
    await place.team.tasks.add("One", by=LEAD, checks=checks)
    await place.spawn("alice", SCRIPT.format(make="true"), prompt="Begin")
    pid = place.project / "pid"
    await eventually(lambda: pid.exists() and pid.read_text().endswith("\n"), within_s=40)
    runner = await pid_of(place, "alice")
    await kill(place, "alice")
    task = await place.team.tasks.get("1")
    assert (task.status, task.owner) == ("in_progress", "alice")
    assert [check.passed for check in task.facts.checks] == [None, None]
    ops = [event.op for event in await place.team.events()]
    assert "task.check" not in ops
    assert runner not in place.processes()
    sleeper = int(pid.read_text())
    assert sleeper in place.processes(), "it carries the nonce of the launch"
    await place.app.examine(None, fix=True)
    await eventually(lambda: processes.look(sleeper) is None or sleeper not in place.processes())
    task = await place.team.tasks.get("1")
    assert (task.status, task.owner) == ("pending", None)
