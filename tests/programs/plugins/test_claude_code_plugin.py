"""A real Claude Code with the plugin. Its model is a mock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bullpen.testing.models import MockModels, Reply
from programs.plugins.stepwise import Steps, run
from programs.real_lead import NEWEST, RealLead, real_lead, spawns
from programs.real_programs import CLAUDE_CODE_VERSIONS, placed, program
from support.doors.people import BULLPEN, Person
from support.runs.reading import ROOT

PREFIX = "mcp__plugin_bullpen_bullpen__"
PLUGIN = ROOT / "src/bullpen/doors/mcp/plugins/claude_code"


def call(tool: str, **given: Any) -> Reply:
    return Reply.call(f"{PREFIX}{tool}", **given)


def installed(person: Person, env: Mapping[str, str], command: str) -> None:
    """Install the plugin, as the user of a program of which `command` is the path."""
    shims = person.home.parent / "shims"
    shims.mkdir(exist_ok=True)
    (shims / "claude").symlink_to(command)
    path = f"{shims}:{env['PATH']}"
    person.said("mcp", "install", "claude", "--plugin", "--yes", **{**env, "PATH": path})


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_claude_code_leads_with_the_plugin_and_continues_the_team_in_another_session(
    person: Person, tmp_path: Path, version: str
) -> None:
    def mail() -> Reply:
        home = str(found.home / ".bullpen")
        person.said("member", "add", "ann", "--home", home)
        person.said("send", "team-lead", "The parser is red.", "--as", "ann", "--home", home)
        return Reply("I stop.")

    model = Steps(call("TeamCreate", team_name="shop"), mail, call("WaitForMail"), Reply("Read."))
    allowed = ("--allowedTools", PREFIX.removesuffix("__"))
    with MockModels(model) as mock:
        found = placed(f"claude-code-{version}", tmp_path / "claude", mock)
        installed(person, found.env, found.argv[0])
        run(found, person.project, "-p", "/bullpen:team Build a parser", *allowed)
        said = "\n".join(model.told)
        assert "Lead a Bullpen team." in said
        assert "Goal: Build a parser" in said
        assert '"team_name": "shop"' in said
        # The hook is what tells it: no tool was called since the mail came.
        assert "You have 1 unread message from ann in Bullpen team shop." in said
        assert "The parser is red." in said

        model = mock.brain = Steps(call("TeamStatus"), Reply("Shown."))
        status = ("-p", "/bullpen:status", *allowed)
        run(found, person.project, *status, BULLPEN_TEAM="shop")
        said = "\n".join(model.told)
        assert "Show the state of the Bullpen team." in said
        assert "Team 'shop', 2 members:\n- team-lead (lead, you)" in said


def test_claude_code_finds_nothing_wrong_with_the_plugin_and_installs_it_from_the_repository(
    tmp_path: Path,
) -> None:
    with MockModels(lambda request: Reply("")) as mock:
        found = placed(f"claude-code-{NEWEST}", tmp_path, mock)
        for path in (ROOT, PLUGIN):
            said = run(found, tmp_path, "plugin", "validate", "--strict", str(path))
            assert "✔ Validation passed" in said
        run(found, tmp_path, "plugin", "marketplace", "add", str(ROOT))
        run(found, tmp_path, "plugin", "install", "bullpen@bullpen")
        (listed,) = json.loads(run(found, tmp_path, "plugin", "list", "--json"))
        assert listed["enabled"]
        assert listed["mcpServers"] == {"bullpen": {"command": "bullpen", "args": ["mcp"]}}


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[RealLead]:
    with real_lead(tmp_path / "lead", program(f"claude-code-{NEWEST}").argv) as lead:
        yield lead


def test_the_hooks_hold_a_teammate_that_leaves_a_task_and_a_task_whose_checks_fail(
    person: Person, lead: RealLead
) -> None:
    installed(person, lead.env, program(f"claude-code-{NEWEST}").argv[0])
    lead.start("--teammate-mode", "in-process")
    lead.until(lambda: lead.config()["leadProcess"], "team")
    lead.parts.steps["working"] = [
        Reply.call("TaskUpdate", taskId="1", status="in_progress", owner="bob"),
        Reply("I rest."),
        Reply.call("TaskUpdate", taskId="1", status="completed"),
        Reply("I cannot."),
    ]
    lead.play("adding", Reply.call("TaskCreate", subject="Build it", description="All of it"))
    ours = ("--home", str(lead.config_dir), "--team", lead.team)
    person.said("task", "edit", "1", "--check-file", "built.txt", *ours)
    lead.play("spawning", spawns(NEWEST, "bob", "play working"))
    lead.until(lambda: lead.has_played("working", 3), "the end of bob")
    said = "\n".join(request.text for request in lead.models.requests)
    assert "Task 1 (Build it) is still yours and in progress." in said
    assert "Task '1' is not done: 1 of its 1 checks failed." in said
    assert lead.task("1")["status"] == "in_progress"
    assert str(BULLPEN) in said
