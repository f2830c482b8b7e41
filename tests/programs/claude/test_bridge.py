"""A real Claude Code starts a teammate, and what it starts is an agent of ours.

All pinned versions honour CLAUDE_CODE_TEAMMATE_COMMAND; these tests fail when one no longer does.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.models import Reply
from programs.joined import bullpen, ours
from programs.real_lead import NEWEST, RealLead, model_for, real_lead, spawns
from programs.real_programs import CLAUDE_CODE_VERSIONS, program

VARIABLE = "CLAUDE_CODE_TEAMMATE_COMMAND"

AGREE = '{type = "shutdown_response", request_id = "{request}", approve = true}'
SCRIPT = """
[[agents.alice.turns]]
when = "mail"
contains = "Say hello"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "hello", message = "Hello, lead."}},
  {say = "Greeted the lead."},
]
[[agents.alice.turns]]
when = "mail"
contains = "Count to three"
steps = [{say = "One, two, three."}]
[[agents.alice.turns]]
when = "mail"
contains = "Please shut down"
steps = [
  {tool = "SendMessage", input = AGREE},
]
""".replace("AGREE", AGREE)


@pytest.fixture(params=CLAUDE_CODE_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """One of the versions that are tested."""
    found: str = request.param
    return found


@pytest.fixture
def lead(tmp_path: Path, version: str) -> Iterator[RealLead]:
    """A lead of that version, not started yet."""
    with real_lead(tmp_path, program(f"claude-code-{version}").argv) as lead:
        yield lead


only_newest = pytest.mark.parametrize("version", [NEWEST], indirect=True)


def start(lead: RealLead, version: str, command: str) -> str | None:
    """Start the lead, have it make a team where it has to; that team, if it must be named."""
    lead.start("--teammate-mode", "tmux", model=model_for(version), **{VARIABLE: command})
    if version == NEWEST:
        lead.until(lambda: lead.config()["leadProcess"], "team")
        return None
    lead.play("creating", Reply.call("TeamCreate", team_name="lab", description="a team"))
    lead.until(lambda: lead.config()["members"], "team")
    return "lab"


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


def bridge(lead: RealLead, settings: str) -> Path:
    """The command that stands for `bullpen-bridge`, with what its file says."""
    home = lead.folder / "home" / ".bullpen"
    home.mkdir()
    script = lead.folder / "script.toml"
    script.write_text(SCRIPT, "utf-8")
    (home / "bridge.toml").write_text(f'script = "{script}"\n{settings}', "utf-8")
    words = shlex.join([sys.executable, "-m", "bullpen", "bridge"])
    return executable(
        lead.folder / "bridge", f'echo "$@" > {lead.folder}/called.txt; exec {words} "$@"'
    )


def shutdown(version: str) -> Reply:
    if version == "2.1.41":
        old = {"type": "shutdown_request", "recipient": "alice", "content": "Done."}
        return Reply.call("SendMessage", **old)
    asked = {"type": "shutdown_request", "reason": "Done."}
    return Reply.call("SendMessage", to="alice", message=asked)


def said(version: str, text: str) -> Reply:
    if version == "2.1.41":
        old = {"type": "message", "recipient": "alice", "content": text, "summary": "a summary"}
        return Reply.call("SendMessage", **old)
    return Reply.call("SendMessage", to="alice", summary="a summary", message=text)


@only_newest
def test_the_variable_holds_one_word(lead: RealLead, version: str) -> None:
    """Why there is a command `bullpen-bridge`: with arguments the shell finds no such program."""
    called = lead.folder / "called.txt"
    command = executable(lead.folder / "command", f'echo "$@" > {called}; sleep 600')
    team = start(lead, version, f"{command} bridge")
    lead.play("spawning", spawns(version, "alice", "Say hello.", team))
    lead.until(lambda: "127" in lead.screen("main:0.1") or _not_found(lead), "error in the pane")
    assert not called.exists()


def _not_found(lead: RealLead) -> bool:
    return "No such file" in lead.scrollback("main:0.1")


def test_what_a_real_lead_starts_is_an_agent_of_ours(lead: RealLead, version: str) -> None:
    team = start(lead, version, str(bridge(lead, 'driver = "scripted"\n')))
    lead.play("spawning", spawns(version, "alice", "Say hello.", team))
    lead.until(lambda: "Greeted the lead." in _heard(lead), "hello and idle notice")
    assert "Hello, lead." in _heard(lead)
    _check_flags((lead.folder / "called.txt").read_text("utf-8").split(), lead.team, version)
    rows = [row for row in lead.config()["members"] if row["name"] == "alice"]
    assert len(rows) == 1
    assert rows[0]["tmuxPaneId"] == "%1"
    assert rows[0]["bullpen"]["spec"]["driver"] == "scripted"

    lead.play("telling", said(version, "Count to three."))
    lead.until(lambda: "One, two, three." in _heard(lead), "second answer")
    assert "alice" in bullpen(lead, "ps").stdout

    lead.play("shutting", shutdown(version))
    lead.until(lambda: lead.member("alice") is None, "end of the member")
    lead.until(lambda: not ours(lead), "end of the process")


def _check_flags(words: list[str], team: str, version: str) -> None:
    """What each version says about the teammate that it starts."""
    assert words[words.index("--agent-name") + 1] == "alice"
    assert words[words.index("--team-name") + 1] == team
    assert {"--agent-id", "--agent-color", "--parent-session-id", "--model"} <= set(words)
    assert ("--lead-verify-key" in words) is (version == NEWEST)
    assert ("--permission-mode" in words) is (version == NEWEST)


@only_newest
def test_a_driver_that_cannot_be_had_is_told_to_the_lead(lead: RealLead, version: str) -> None:
    team = start(lead, version, str(bridge(lead, 'driver = "teleprompter"\n')))
    lead.play("spawning", spawns(version, "alice", "Say hello.", team))
    lead.until(lambda: "teleprompter" in _heard(lead), "failure in the lead's mail")
    assert "teleprompter" in lead.scrollback("main:0.1")
    assert ours(lead) == []


def _heard(lead: RealLead) -> str:
    """All that the lead's model was told."""
    return "\n".join(request.given for request in lead.models.requests)
