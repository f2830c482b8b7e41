"""What the hooks of the plugin say, and that they never hold a session for ever."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.cli.main import EXITS
from bullpen.doors.cli.screens import mcp_hook
from bullpen.doors.mcp.plugins.hooks import (
    BLOCK,
    HookEvent,
    event_of,
    is_first,
    program_of_this_hook,
    unread_mail,
)
from support.doors.mcp_house import House

HERE = [os.getppid()]
STOP = HookEvent("Stop", "s-1")


def payload(name: str, **fields: object) -> bytes:
    return json.dumps({"hook_event_name": name, "session_id": "s-1", **fields}).encode()


async def test_a_session_that_stops_is_told_of_mail_that_it_has_not_got(house: House) -> None:
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        await ann.list_tools()
        assert await unread_mail(house.teams, STOP, HERE) == ("", "")
        await house.team.mailbox.send("ann", "First", sender="bob")
        text, key = await unread_mail(house.teams, STOP, HERE)
        assert text.startswith("You have 1 unread message from bob in Bullpen team alpha.")
        await house.team.mailbox.send("ann", "Second", sender="bob")
        # More mail is another reason.
        assert (await unread_mail(house.teams, STOP, HERE))[1] != key
        await ann.call_tool("WaitForMail", {})
        assert await unread_mail(house.teams, STOP, HERE) == ("", "")


async def test_only_the_server_of_the_same_program_is_the_sessions(house: House) -> None:
    await house.team.mailbox.send("ann", "First", sender="bob")
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        await ann.list_tools()
        assert await unread_mail(house.teams, STOP, [1, os.getpid()]) == ("", "")
        assert await unread_mail(house.teams, STOP, []) == ("", "")
        assert (await unread_mail(house.teams, STOP, HERE))[0]
    # Its server has gone.
    assert await unread_mail(house.teams, STOP, HERE) == ("", "")


async def test_a_teammate_in_the_leads_process_is_not_told_of_the_leads_mail(house: House) -> None:
    await house.team.mailbox.send("ann", "First", sender="bob")
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        await ann.list_tools()
        idle = replace(STOP, name="TeammateIdle", teammate="carl")
        assert await unread_mail(house.teams, idle, HERE) == ("", "")
        assert (await unread_mail(house.teams, replace(idle, teammate="ann"), HERE))[0]


def test_the_program_of_a_hook_is_among_its_nearest_ancestors() -> None:
    found = program_of_this_hook()
    assert found[0] == os.getppid()
    assert len(found) <= 3
    assert 1 not in found


def test_a_reason_is_given_once_to_a_session(tmp_path: Path) -> None:
    assert is_first(tmp_path, STOP, "a")
    assert not is_first(tmp_path, STOP, "a")
    assert is_first(tmp_path, STOP, "b")
    assert is_first(tmp_path, replace(STOP, session="s-2"), "a")
    # A week later the note is gone.
    notes = tmp_path / "plugins/reminders"
    for path in notes.iterdir():
        os.utime(path, (0, time.time() - 8 * 24 * 3600))
    assert is_first(tmp_path, STOP, "c")
    assert len(list(notes.iterdir())) == 1


def test_a_reason_that_cannot_be_noted_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("a file", encoding="utf-8")
    assert not is_first(tmp_path, STOP, "a")


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"hook_event_name": "PreToolUse"}'])
def test_what_is_not_one_of_our_hooks_is_let_pass(run: Callable[..., Any], text: str) -> None:
    assert event_of(text) is None
    result = run("mcp", "--hook", typed=text.encode())
    assert (result.exit_code, result.output) == (0, "")


def test_no_error_of_bullpen_has_the_code_that_refuses() -> None:
    hooks = Path(mcp_hook.__file__).parents[2] / "mcp/plugins/claude_code/hooks/hooks.json"
    assert f"[ $? -ne {BLOCK} ]" in hooks.read_text("utf-8")
    assert BLOCK not in {code for _, _, code in EXITS} | {0, 1, 2, 6, 130, 141}


@pytest.fixture
def claude_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ok: Callable[..., str]) -> str:
    """A home of Claude Code with a team, and a task of bob's in it."""
    folder = str(tmp_path / "claude")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", folder)
    at = ("--home", folder)
    ok("team", "create", "walls", *at)
    ok("member", "add", "bob", *at)
    ok("task", "add", "Build it", "--owner", "bob", "--check-file", "built.txt", *at)
    return folder


def test_an_idle_teammate_is_told_once_of_its_task(
    run: Callable[..., Any], ok: Callable[..., str], claude_home: str, home: Path
) -> None:
    idle = payload("TeammateIdle", team_name="walls", teammate_name="bob")
    assert run("mcp", "--hook", typed=idle).exit_code == 0
    ok("task", "claim", "1", "--as", "bob", "--home", claude_home)
    told = run("mcp", "--hook", typed=idle)
    assert told.exit_code == BLOCK
    assert told.stderr.startswith("Task 1 (Build it) is still yours and in progress.")
    assert run("mcp", "--hook", typed=idle).exit_code == 0
    other = payload("TeammateIdle", team_name="walls", teammate_name="ann")
    assert run("mcp", "--hook", typed=other).exit_code == 0


def test_a_task_is_completed_only_if_its_checks_pass(
    run: Callable[..., Any],
    ok: Callable[..., str],
    claude_home: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    ok("task", "claim", "1", "--as", "bob", "--home", claude_home)
    done = payload("TaskCompleted", team_name="walls", teammate_name="bob", task_id="1")
    for _ in range(2):
        told = run("mcp", "--hook", typed=done)
        assert told.exit_code == BLOCK
        assert "1 of its 1 checks failed" in told.stderr
    (project / "built.txt").write_text("built", encoding="utf-8")
    assert run("mcp", "--hook", typed=done).exit_code == 0


@pytest.mark.parametrize("team", ["nobody-knows-it", "../walls", ""])
def test_a_team_that_bullpen_does_not_know_holds_nobody(
    run: Callable[..., Any], claude_home: str, home: Path, team: str
) -> None:
    for name in ("TaskCompleted", "TeammateIdle"):
        typed = payload(name, team_name=team, teammate_name="bob", task_id="1")
        assert run("mcp", "--hook", typed=typed).exit_code != BLOCK
