"""Hooks in a role, in the form that Claude Code has: every event runs for that agent alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.definitions import apply, read
from bullpen.agents.config.settings import hooks_for_children
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.hooks.hook_set import EVENTS, HookSet
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from support.crews import Crew, eventually

ROLE = """---
name: guarded
description: Works under hooks
hooks:
  PreToolUse:
    - matcher: "Read|Glob"
      hooks:
        - type: command
          command: "cat >> {folder}/PreToolUse.jsonl"
          timeout: 30
    - matcher: "Bash"
      hooks:
        - type: command
          command: "echo 'not with this role' >&2; exit 2"
  PostToolUse:
    - matcher: "Glob"
      hooks: [{{type: command, command: "cat >> {folder}/PostToolUse.jsonl"}}]
  PostToolUseFailure:
    - hooks: [{{type: command, command: "cat >> {folder}/PostToolUseFailure.jsonl"}}]
  TaskCreated:
    - hooks: [{{type: command, command: "cat >> {folder}/TaskCreated.jsonl"}}]
  TaskCompleted:
    - hooks: [{{type: command, command: "cat >> {folder}/TaskCompleted.jsonl"}}]
  TeammateIdle:
    - hooks: [{{type: command, command: "cat >> {folder}/TeammateIdle.jsonl"}}]
  SubagentStart:
    - matcher: guarded
      hooks: [{{type: command, command: "cat >> {folder}/SubagentStart.jsonl"}}]
  SubagentStop:
    - hooks: [{{type: command, command: "cat >> {folder}/SubagentStop.jsonl"}}]
  Stop:
    - hooks:
        - type: command
          command: "cat >> {folder}/Stop.jsonl"
  SessionStart:
    - hooks: [{{type: command, command: "touch {folder}/never"}}]
---
Work.
"""


@pytest.fixture
def role(tmp_path: Path) -> AgentSpec:
    path = tmp_path / ".claude/agents/guarded.md"
    path.parent.mkdir(parents=True)
    path.write_text(ROLE.format(folder=tmp_path))
    return apply(read(path), AgentSpec.new(driver="native", backend="none", cwd=str(tmp_path)))


def payloads(folder: Path, event: str) -> list[dict[str, Any]]:
    path = folder / f"{event}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def test_every_event_of_a_role_runs_for_its_agent_and_for_no_other(
    crew: Crew, tmp_path: Path, role: AgentSpec
) -> None:
    said: list[str] = []

    async def works(_: TurnInput, desk: Desk) -> str:
        for tool, given in (
            ("Glob", {"pattern": "*"}),
            ("Bash", {"command": "touch mark"}),
            ("Read", {"file_path": "nothing.txt"}),
            ("TaskCreate", {"subject": "T2", "description": "d"}),
            ("TaskUpdate", {"taskId": "1", "status": "completed"}),
        ):
            said.append((await call(toolbox(desk), tool, given, desk))[0])
        return "Done."

    await crew.team.tasks.add("T1", description="d", by=LEAD)
    bob = await crew.hire("bob", prompt="Rest", claims=False)
    alice = await crew.hire("alice", works, claims=True, role=role.role, hooks=role.hooks)
    await eventually(lambda: len(payloads(tmp_path, "TeammateIdle")) >= 1)
    alice.runner.stop("stopped", "enough")
    await eventually(lambda: alice.ended is not None)
    bob.runner.stop("stopped", "enough")
    await eventually(lambda: bob.ended is not None)
    assert "not with this role" in said[1] and not (tmp_path / "mark").exists()
    for event in EVENTS:
        rows = payloads(tmp_path, event)
        assert rows, event
        assert {row["agent"] for row in rows} == {"alice"}, event
        assert {row["agent_type"] for row in rows} == {"guarded"}, event
    assert [row["tool_name"] for row in payloads(tmp_path, "PostToolUse")] == ["Glob"]
    assert payloads(tmp_path, "Stop")[0]["last_assistant_message"] == "Done."
    # What Bullpen does not run is said.
    assert any("SessionStart" in row["text"] for row in alice.told("trouble"))
    assert not (tmp_path / "never").exists()


def test_whom_the_agent_spawns_has_all_its_hooks_but_for_its_own_stop(role: AgentSpec) -> None:
    passed_on = HookSet.of(hooks_for_children(role.hooks))
    events = {hook.event for hook in passed_on.hooks}
    assert events == set(EVENTS) - {"Stop"}
