"""Subagents of a real agent: its runner, its gate, its hooks and its account."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.testing.models import Call, MockModels, ModelRequest, Reply
from support.crews import QUICK, eventually

CAREFUL = """---
name: careful
description: Writes only where it may
tools: Read, Write, Bash(echo:*)
disallowedTools: Read(secret/**)
permissionMode: dontAsk
model: claude-small-mock
hooks:
  PreToolUse:
    - matcher: Read
      hooks:
        - type: command
          command: cat >> pre.jsonl; grep -q forbidden pre.jsonl && exit 2 || exit 0
---
Be careful.
"""


class Asks:
    """A model that asks one subagent, whose calls a test gives, and repeats its answer."""

    def __init__(self, *calls: Call, **task: Any) -> None:
        self.calls = list(calls)
        self.task = {"description": "Look", "prompt": "Do it.", **task}
        self.of_subagent: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Reply:
        if "You are a subagent of" in request.system:
            self.of_subagent.append(request)
            return Reply("", [self.calls.pop(0)]) if self.calls else Reply("I have looked.")
        if not any(turn.role == "assistant" for turn in request.turns):
            return Reply("", [Call("Task", self.task)])
        return Reply(f"Told: {request.given[-400:]}")


def hook(event: str, folder: Path) -> dict[str, Any]:
    command = f"cat >> {folder}/{event}.jsonl; echo >> {folder}/{event}.jsonl"
    return {event: [{"hooks": [{"type": "command", "command": command}]}]}


def told(folder: Path, event: str) -> list[Mapping[str, Any]]:
    path = folder / f"{event}.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.strip()]


async def played(
    model: Asks, folder: Path, *, name: str = LEAD, hooks: Mapping[str, Any] | None = None
) -> tuple[str, Any, MockModels]:
    """What an agent says after its turn, its record, and the requests that were made."""
    project, user = folder / "project", folder / "user"
    (project / "secret").mkdir(parents=True)
    (project / "secret/key.txt").write_text("treasure", "utf-8")
    (project / "a.txt").write_text("harmless", "utf-8")
    (user / ".claude/agents").mkdir(parents=True)
    (user / ".claude/agents/careful.md").write_text(CAREFUL, "utf-8")
    home = folder / "home"
    with MockModels(model) as mock:
        env = {**os.environ, "HOME": str(user), **mock.env}
        settings = settings_from({"HOME": str(user)}, home=home, team="alpha")
        async with App(settings, env, pace=QUICK, store=MemoryStore()) as app:
            await app.teams.create("alpha", cwd=str(project))
            spec = await app.resolve(
                SpawnRequest(
                    cwd=str(project),
                    backend="in-process",
                    model="anthropic:claude-mock-1",
                    mode="acceptEdits",
                    prompt="Go",
                    claims=False,
                )
            )
            spec = spec.evolve(hooks=dict(hooks) if hooks else None)
            supervisor, team = app.supervisor("alpha"), app.teams.open("alpha")
            await supervisor.spawn(name, spec, by=LEAD)

            async def rested() -> bool:
                return (await team.agents.get(name))[1].turn_ended > 0

            await eventually(rested)
            _, agent = await team.agents.get(name)
            text = mock.of(name)[-1].given
            await supervisor.stop_all(by=LEAD, reason="the test is over")
            return text, agent, mock


async def test_its_type_limits_it_within_its_agents_gate(tmp_path: Path) -> None:
    project = tmp_path / "project"
    model = Asks(
        Call("Read", {"file_path": str(project / "a.txt")}),
        Call("Read", {"file_path": str(project / "secret/key.txt")}),
        Call("Bash", {"command": "echo hi"}),
        Call("Bash", {"command": "touch made.txt"}),
        Call("Write", {"file_path": "/etc/passwd", "content": "x"}),
        Call("Read", {"file_path": str(project / "forbidden.txt")}),
        subagent_type="careful",
    )
    text, _, _ = await played(model, tmp_path)
    assert "I have looked." in text
    results = [result.text for result in model.of_subagent[-1].results]
    assert "harmless" in results[0]
    assert "You may not do this" in results[1] and "treasure" not in results[1]
    assert "hi" in results[2]
    # Its agent may, with a person's consent; the type never asks and has only a part of Bash.
    assert "You may not do this" in results[3]
    assert "You may not do this" in results[4]
    assert "a hook refused the call" in results[5]
    assert not (project / "made.txt").exists()
    assert {request.model for request in model.of_subagent} == {"claude-small-mock"}


async def test_its_hooks_run_and_its_requests_are_booked_on_its_agent(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    model = Asks(Call("Glob", {"pattern": "*.txt"}), subagent_type="Explore")
    hooks = {
        **hook("SubagentStart", seen),
        **hook("SubagentStop", seen),
        **hook("PreToolUse", seen),
    }
    _, agent, mock = await played(model, tmp_path, hooks=hooks)
    starts, stops = told(seen, "SubagentStart"), told(seen, "SubagentStop")
    assert [row["agent_type"] for row in starts] == ["Explore"]
    assert [row["reason"] for row in stops] == ["it has answered"]
    assert [row["tool_name"] for row in told(seen, "PreToolUse")] == ["Task", "Glob"], "once each"
    assert agent.usage.requests == len(mock.requests) == 4
    assert agent.usage.turns == 1
