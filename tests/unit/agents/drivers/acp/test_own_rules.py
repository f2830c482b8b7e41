"""A program whose own settings let it act unasked is not started as if our gate held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.agents.drivers.acp.driver import make
from bullpen.agents.drivers.acp.own_rules import codex_allows, unasked
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk
from support.rows import each_row

CODEX = 'prefix_rule(pattern=["touch"], decision="allow")\n'
GOOSE = "user:\n  always_allow:\n  - developer__shell\n  ask_before: []\n  never_allow: []\n"


def _put(path: Path, content: str | dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


@pytest.mark.parametrize(
    ("program", "path", "content", "found"),
    [
        ("codex", ".codex/rules/default.rules", CODEX, "prefix_rule"),
        ("copilot", ".copilot/hooks/a.json", "{}", "a hook"),
        ("copilot", ".copilot/settings.json", {"hooks": {"preToolUse": [{}]}}, "a hook"),
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
    _put(tmp_path / "c" / "rules" / "mine.rules", CODEX)
    assert unasked("codex", {"HOME": "/nobody", "CODEX_HOME": str(tmp_path / "c")})
    _put(tmp_path / "x" / "goose" / "permission.yaml", GOOSE)
    assert unasked("goose", {"HOME": "/nobody", "XDG_CONFIG_HOME": str(tmp_path / "x")})


def test_what_is_not_asked_for_anyway_does_not_count(tmp_path: Path) -> None:
    allowed = "user:\n  always_allow:\n  - bullpen__TaskList\n"
    _put(tmp_path / ".config" / "goose" / "permission.yaml", allowed)
    assert unasked("goose", {"HOME": str(tmp_path)}) == []


@pytest.mark.parametrize("content", ["{", "[]", "user: []", "user:\n  always_allow: 1\n"])
def test_a_file_that_says_nothing_we_know_is_left_to_the_program(
    tmp_path: Path, content: str
) -> None:
    _put(tmp_path / ".config" / "goose" / "permission.yaml", content)
    assert unasked("goose", {"HOME": str(tmp_path)}) == []


@each_row(
    ("text", "allows"),
    [
        ('prefix_rule(pattern=["ls"], decision="allow")', 1),
        # Without a decision a rule allows.
        ('prefix_rule(pattern=["ls"])', 1),
        ('prefix_rule(\n    pattern = ["rm"],\n    decision = "prompt",\n)\n', 0),
        ("prefix_rule(pattern=['rm'], decision='forbidden')", 0),
        ('# prefix_rule(pattern=["ls"])\n', 0),
        ('prefix_rule(pattern=["rm"], decision="prompt")\nprefix_rule(pattern=["ls"])', 1),
        ('network_rule(host="example.com", decision="allow")', 1),
        # What is no rule may be one by another name.
        ("rule = prefix_rule\nrule(pattern=['ls'])", 2),
        ("", 0),
    ],
)
def test_a_rule_of_codex_that_allows_is_told_from_one_that_asks(text: str, allows: int) -> None:
    assert len(codex_allows(text)) == allows


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
    driver = make(spec)
    with pytest.raises(Unavailable) as caught:
        await driver.start(desk)
    # With nothing to be kept it gets as far as the program, which is not there.
    refused = "developer__shell" in caught.value.message
    assert refused == (mode != "bypassPermissions")
