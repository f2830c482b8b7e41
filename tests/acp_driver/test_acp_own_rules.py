"""A program whose own settings let it act unasked is not started as if our gate held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.agents.drivers.acp.driver import make
from bullpen.agents.drivers.acp.own_rules import unasked
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.teams import Teams
from bullpen.testing.desks import RecordingDesk

GOOSE = "user:\n  always_allow:\n  - developer__shell\n  ask_before: []\n  never_allow: []\n"


def _put(path: Path, content: str | dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


@pytest.mark.parametrize(
    ("program", "path", "content", "found"),
    [
        ("claude", ".claude/settings.json", {"permissions": {"allow": ["Bash(git:*)"]}}, "Bash"),
        ("gemini", ".gemini/settings.json", {"tools": {"allowed": ["run_shell_command"]}}, "run_"),
        ("qwen", ".qwen/settings.json", {"permissions": {"allow": ["Bash"]}}, "Bash"),
        ("qwen", ".qwen/settings.json", {"tools": {"allowed": ["edit"]}}, "edit"),
        ("goose", ".config/goose/permission.yaml", GOOSE, "developer__shell"),
    ],
)
def test_what_the_users_settings_allow_is_found_with_the_file(
    tmp_path: Path, program: str, path: str, content: str | dict[str, object], found: str
) -> None:
    env = {"HOME": str(tmp_path)}
    assert unasked(program, env) == []
    _put(tmp_path / path, content)
    (told,) = unasked(program, env)
    assert told.startswith(found)
    assert str(tmp_path / path) in told


def test_the_directories_that_the_environment_names_are_looked_at(tmp_path: Path) -> None:
    _put(tmp_path / "c" / "settings.json", {"permissions": {"allow": ["Write"]}})
    assert unasked("claude", {"HOME": "/nobody", "CLAUDE_CONFIG_DIR": str(tmp_path / "c")})
    _put(tmp_path / "x" / "goose" / "permission.yaml", GOOSE)
    assert unasked("goose", {"HOME": "/nobody", "XDG_CONFIG_HOME": str(tmp_path / "x")})


def test_what_is_not_asked_for_anyway_does_not_count(tmp_path: Path) -> None:
    allow = ["Read(~/docs/**)", "Grep", "mcp__bullpen__TaskList"]
    _put(
        tmp_path / ".claude" / "settings.json", {"permissions": {"allow": allow, "deny": ["Bash"]}}
    )
    assert unasked("claude", {"HOME": str(tmp_path)}) == []


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": 1}}']
)
def test_a_file_that_says_nothing_we_know_is_left_to_the_program(
    tmp_path: Path, content: str
) -> None:
    _put(tmp_path / ".claude" / "settings.json", content)
    assert unasked("claude", {"HOME": str(tmp_path)}) == []


@pytest.mark.parametrize("mode", ["default", "plan", "bypassPermissions"])
async def test_such_a_program_starts_only_where_nothing_is_asked(tmp_path: Path, mode: str) -> None:
    """R-4.2: a policy that the program would not keep is refused, by name."""
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    home = tmp_path / "home"
    _put(home / ".config" / "goose" / "permission.yaml", GOOSE)
    spec = AgentSpec.new(
        driver="goose",
        backend="in-process",
        cwd=str(tmp_path),
        mode=mode,
        options={"command": ["/nowhere/goose"]},
    )
    desk = RecordingDesk(team, "ann", tmp_path, spec, env={"HOME": str(home), "PATH": "/usr/bin"})
    driver = make(spec, {})
    with pytest.raises(Unavailable) as caught:
        await driver.start(desk)
    # With nothing to be kept it gets as far as the program, which is not there.
    refused = "developer__shell" in caught.value.message
    assert refused == (mode != "bypassPermissions")
