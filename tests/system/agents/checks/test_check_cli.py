"""`bullpen task` runs checks: for people, and for agents in their shells."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bullpen.agents.system.transcript import rows
from bullpen.doors.cli.main import app
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.protocol.task import Check
from support.crews import eventually
from support.offices import Place

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command as a person, in a directory of its own, on a team with ann in it."""
    for name in [name for name in os.environ if name.startswith("BULLPEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    assert invoke("team", "create", "crew").exit_code == 0
    assert invoke("member", "add", "ann").exit_code == 0
    return invoke


def read(run: Run, *words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def add(run: Run, *checks: str) -> None:
    assert run("task", "add", "Ship", *checks).exit_code == 0
    assert run("task", "claim", "1", "--as", "ann").exit_code == 0


def test_done_runs_the_checks_and_shows_what_each_found(run: Run) -> None:
    """R-7.2: for people too the runtime looks, and a failed check keeps the task open."""
    add(run, "--check", "tests=echo 2 fail; test -e well", "--check-file", "out.txt")
    result = run("task", "done", "1", "--as", "ann")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "✗ tests: echo 2 fail; test -e well",
        "    exit code 1",
        "    2 fail",
        "✗ out.txt",
        f"    there is no out.txt in {Path.cwd()}",
    ]
    assert result.stderr.startswith("error: Task '1' is not done: 2 of its 2 checks failed.\n")
    assert read(run, "task", "show", "1")["status"] == "in_progress"
    Path("well").touch()
    Path("out.txt").write_text("x", "utf-8")
    result = run("task", "done", "1", "--as", "ann")
    assert result.stdout.splitlines() == [
        "✓ tests: echo 2 fail; test -e well",
        "✓ out.txt",
        "Completed task 1: Ship",
    ]
    assert result.exit_code == 0


def test_with_json_a_refusal_holds_all_that_was_found(run: Run) -> None:
    add(run, "--check", "tests=echo 2 fail; false")
    result = run("task", "done", "1", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["reason"] == "checks_failed"
    assert "exit code 1\n2 fail" in error["message"]


def test_check_runs_them_without_completing(run: Run) -> None:
    add(run, "--check", "tests=test -e well", "--needs-report")
    result = run("task", "check", "1")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "0 of 2 checks of task 1 passed."
    Path("well").touch()
    found = read(run, "task", "check", "1", "--report", "It is done")
    assert found["passed"] is True
    assert [check["passed"] for check in found["checks"]] == [True, True]
    shown = run("task", "show", "1").stdout
    assert "check tests, passed 0s ago: test -e well" in shown
    assert "status:   in_progress" in shown
    assert run("task", "done", "1", "--report", "It is done").exit_code == 0
    again = run("task", "check", "1")
    assert (again.exit_code, again.stdout) == (2, ""), "it is done, so nothing is run"
    assert run("task", "add", "Two").exit_code == 0
    assert "Task 2 has no checks" in run("task", "check", "2").stdout


def test_checks_are_run_in_another_directory_if_one_is_named(run: Run, tmp_path: Path) -> None:
    add(run, "--check", "place=pwd; false")
    (tmp_path / "there").mkdir()
    assert f"    {tmp_path}/there\n" in run("task", "check", "1", "--cwd", "../there").stdout
    assert f"    {tmp_path}/here\n" in run("task", "check", "1").stdout
    gone = run("task", "check", "1", "--cwd", "../nowhere")
    assert gone.exit_code == 1
    assert "cannot be started" in gone.stdout


def test_a_person_completes_a_task_without_its_checks_by_a_reason(run: Run) -> None:
    add(run, "--check", "tests=touch ran; false")
    assert run("task", "done", "1", "--force", " ").exit_code == 2
    assert run("task", "done", "1", "--force", "The machine is gone").exit_code == 0
    assert not Path("ran").exists()
    shown = run("task", "show", "1").stdout
    assert "completed without its checks by team-lead: The machine is gone" in shown
    last = read(run, "events")["events"][-1]
    assert last["op"] == "task.force"
    assert "The machine is gone" in json.dumps(last)


def test_an_edit_replaces_the_checks_or_removes_them(run: Run) -> None:
    add(run, "--check", "tests=false")
    assert run("task", "edit", "1", "--check", "lint=true", "--subject", "Ship it").exit_code == 0
    task = read(run, "task", "show", "1")
    assert task["subject"] == "Ship it"
    assert [check["name"] for check in task["metadata"]["bullpen"]["checks"]] == ["lint"]
    assert run("task", "edit", "1", "--no-checks", "--check", "a=b").exit_code == 2
    assert run("task", "edit", "1", "--no-checks").exit_code == 0
    assert run("task", "done", "1").exit_code == 0


# --- agents in their shells

SCRIPT = """
[[agents.alice.turns]]
when = "start"
steps = [
  { tool = "TaskUpdate", input = { taskId = "1", status = "in_progress" } },
  { tool = "Bash", input = { command = "bullpen task done 1 --force because" }, may_fail = true },
  { tool = "Bash", input = { command = "bullpen task done 1 --as team-lead" }, may_fail = true },
  { tool = "Bash", input = { command = "bullpen task edit 1 --no-checks" }, may_fail = true },
  { tool = "Bash", input = { command = "bullpen task delete 1" }, may_fail = true },
  { tool = "Bash", input = { command = "bullpen task add X --check x=rm" }, may_fail = true },
  { tool = "Bash", input = { command = "bullpen task done 1" }, may_fail = true },
  { tool = "Bash", input = { command = "touch well" } },
  { tool = "Bash", input = { command = "bullpen task done 1" } },
]
"""


async def test_an_agent_in_its_shell_is_bound_by_the_same_rules(place: Place) -> None:
    """R-7.2, R-4.4: no command line gets round what the tools refuse."""
    check = Check.new(name="tests", kind="command", run="test -e well")
    await place.team.tasks.add("One", by=LEAD, checks=[check])
    policy = Policy.new(allow=["Bash(bullpen:*)", "Bash(touch:*)"], approver="policy")
    await place.spawn("alice", SCRIPT, mode="default", policy=policy, prompt="Begin")
    transcript = (await place.supervisor.starter.folder("alice")) / "transcript.jsonl"

    def results() -> list[str]:
        return [row["text"] for row in rows(transcript) if row["kind"] == "result"]

    await eventually(lambda: len(results()) == 9, within_s=50)
    _, force, other, edit, delete, smuggle, early, _, done = results()
    assert "Only a person can complete a task without its checks" in force
    assert "cannot act as 'team-lead'" in other
    assert "cannot change the checks of task '1'" in edit
    assert "cannot delete task '1'" in delete
    assert "You may not use Bash rm as a check" in smuggle
    assert "✗ tests: test -e well" in early
    assert "✓ tests: test -e well\nCompleted task 1: One" in done
    tasks = (await place.team.tasks.list()).tasks
    assert [(task.id, task.status) for task in tasks] == [("1", "completed")]
