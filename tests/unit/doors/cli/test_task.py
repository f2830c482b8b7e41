"""`bullpen task`: the shared task list."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.stall_rules import blocked_for_good
from bullpen.team.team import Teams


def test_checks_are_stated_by_options(as_json: Callable[..., Any], team: str) -> None:
    added = as_json(
        "task", "add", "Ship", "--check", "tests=make test A=1", "--check-file", "out.txt",
        "--needs-report",
    )  # fmt: skip

    assert added["metadata"]["bullpen"]["checks"] == [
        {"name": "tests", "kind": "command", "run": "make test A=1"},
        {"name": "out.txt", "kind": "file", "path": "out.txt"},
        {"name": "report", "kind": "report"},
    ]


@pytest.mark.parametrize("check", ["tests", "=make", "tests=", "= "])
def test_a_check_without_name_or_command_is_a_usage_error(
    run: Callable[..., Any], team: str, check: str
) -> None:
    result = run("task", "add", "Ship", "--check", check)

    assert result.exit_code == 2
    assert "NAME=COMMAND" in result.stderr


def test_an_owner_is_told_of_the_task(ok: Callable[..., str], team: str) -> None:
    ok("task", "add", "Ship", "--owner", "alice")

    assert "Task 4 was assigned to you by team-lead: Ship" in ok("inbox", "alice")


def test_the_list_shows_what_each_task_still_waits_for(ok: Callable[..., str], team: str) -> None:
    ok("task", "claim", "1", "--as", "alice")
    ok("task", "done", "1", "--as", "alice")

    assert ok("task", "list").splitlines() == [
        "ID  STATUS     OWNER  WAITS-FOR  SUBJECT",
        "1   completed  alice  -          Write the parser",
        "2   pending    -      -          Write the lexer",
        "3   pending    -      2          Test both",
    ]


def test_empty_lists_say_what_to_do(ok: Callable[..., str]) -> None:
    ok("team", "create", "alpha")
    assert ok("task", "list") == "No tasks yet. Add one: bullpen task add 'SUBJECT'\n"
    assert ok("task", "graph") == "No tasks yet. Add one: bullpen task add 'SUBJECT'\n"

    ok("task", "add", "One")
    assert "See all: bullpen task list" in ok("task", "list", "--status", "completed")


def test_a_task_that_cannot_be_read_is_a_warning_and_in_the_json(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    (home / "tasks/alpha/2.json").write_text("{", encoding="utf-8")

    for words in (["task", "list"], ["task", "graph"]):
        result = run(*words, "--json")
        assert result.exit_code == 0
        assert "2.json" in json.loads(result.stdout)["problems"][0]["where"]
        assert result.stderr.startswith("warning: cannot read ")
    waiting = run("task", "list").stdout.splitlines()[-1].split()
    assert waiting[3] == "1,2", "a blocker that cannot be read still blocks"


def test_a_task_whose_checks_another_program_broke_can_still_be_shown(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    path = home / "tasks/alpha/1.json"
    task = json.loads(path.read_bytes())
    task["metadata"] = {"bullpen": {"checks": [{"passed": 7}]}}
    path.write_text(json.dumps(task), encoding="utf-8")

    assert run("task", "show", "1").exit_code == 0


def test_claiming_without_an_id_takes_the_next_that_is_ready(
    run: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    assert ok("task", "claim", "--as", "alice") == "alice has task 1: Write the parser\n"
    assert ok("task", "claim", "--as", "bob") == "bob has task 2: Write the lexer\n"
    nothing = run("task", "claim")
    assert nothing.exit_code == 3
    assert "No task is ready" in nothing.stderr


def test_the_environment_says_who_claims(
    ok: Callable[..., str], team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_AGENT", "bob")

    assert ok("task", "claim") == "bob has task 1: Write the parser\n"


def test_also_lets_a_busy_member_claim_another(ok: Callable[..., str], team: str) -> None:
    ok("task", "claim", "1", "--as", "alice")

    assert ok("task", "claim", "2", "--also", "--as", "alice").startswith("alice has task 2")


def test_completing_says_what_is_ready_now(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    assert ok("task", "done", "1") == "Completed task 1: Write the parser\n"
    assert as_json("task", "done", "2")["unblocked"] == ["3"]


def test_a_report_completes_a_task_that_needs_one(
    run: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    ok("task", "add", "Ship", "--needs-report")
    ok("task", "claim", "4", "--as", "bob")

    assert run("task", "done", "4", "--as", "bob").exit_code == 2
    assert run("task", "done", "4", "--as", "bob", "--report", "-", typed=b"Done\n").exit_code == 0
    assert "Report:\n  Done\n" in ok("task", "show", "4")


def test_a_task_in_progress_shows_what_is_being_done(ok: Callable[..., str], team: str) -> None:
    ok("task", "add", "Ship", "--active-form", "Shipping")
    assert "Shipping" not in ok("task", "show", "4")
    ok("task", "claim", "4", "--as", "bob")
    assert "doing:" in ok("task", "show", "4") and "Shipping" in ok("task", "show", "4")


def test_release_assign_edit_depend_and_delete_say_what_they_did(
    ok: Callable[..., str], team: str
) -> None:
    ok("task", "claim", "1", "--as", "alice")

    assert ok("task", "release", "1", "--reason", "stuck") == (
        "Task 1 is pending again: Write the parser\n"
    )
    assert "released:  stuck" in ok("task", "show", "1")
    assert ok("task", "assign", "1", "bob") == "Assigned task 1 to bob: Write the parser\n"
    assert ok("task", "edit", "1", "--subject", "Parse") == "Changed task 1: Parse\n"
    assert ok("task", "depend", "2", "1") == "Task 2 waits for 1.\n"
    assert ok("task", "undepend", "2", "1") == "Task 2 waits for nothing.\n"
    assert ok("task", "delete", "1") == "Deleted task 1: Parse\n"


def test_an_edit_that_changes_nothing_is_a_usage_error(run: Callable[..., Any], team: str) -> None:
    assert run("task", "edit", "1").exit_code == 2


def test_the_graph_is_a_table_without_a_terminal(ok: Callable[..., str], team: str) -> None:
    assert ok("task", "graph").splitlines() == [
        "LAYER  ID  STATUS   BLOCKED-BY  BLOCKS  SUBJECT",
        "0      1   pending  -           3       Write the parser",
        "0      2   pending  -           3       Write the lexer",
        "1      3   pending  1,2         -       Test both",
    ]


@pytest.mark.parametrize("words", [("task", "list"), ("task", "graph")])
def test_tasks_that_cannot_be_read_are_not_called_none(
    run: Callable[..., Any], ok: Callable[..., str], team: str, home: Path, words: tuple[str, ...]
) -> None:
    for path in (home / "tasks/alpha").glob("*.json"):
        path.write_text("{", "utf-8")

    shown = run(*words)
    assert "No tasks yet" not in shown.stdout
    assert "No task could be read." in shown.stdout
    assert "1.json" in shown.stderr


def test_a_task_shows_whom_it_is_kept_for_and_why(
    ok: Callable[..., str], team: str, home: Path
) -> None:
    """The members are agents that take tasks; nobody has to run for that."""

    async def register() -> None:
        async with Teams(FileStore(home, fsync=False)) as teams:
            for name in ("security-reviewer", "tests-reviewer"):
                spec = AgentSpec.new(driver="scripted", backend="tmux", cwd="/", claims=True)
                await teams.open(team).agents.register(name, spec, by=LEAD, nonce=name)

    anyio.run(register)
    ok("task", "add", "Review for security")
    shown = ok("task", "show", "4")
    assert "security-reviewer (its words match: security)" in shown
    assert "kept for" in shown
    ok("task", "add", "Read the change")
    assert "kept for" not in ok("task", "show", "5")


def test_retrying_a_task_names_those_that_come_back_with_it(
    ok: Callable[..., str], team: str, home: Path
) -> None:
    async def give_up() -> None:
        tasks = Teams(FileStore(home)).open(team).tasks
        await tasks.give_up("1", by=LEAD, reason="No compiler")
        await tasks.give_up("3", by=LEAD, reason=blocked_for_good("1"))

    anyio.run(give_up)

    assert ok("task", "retry", "1") == (
        "Task 1 can be taken again: Write the parser\nTask 3 waits again: Test both\n"
    )
