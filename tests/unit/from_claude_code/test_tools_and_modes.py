"""The tools by their names, agent types, permission modes, rules and plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec

from .page import shows

HOOKS = ("TeammateIdle", "TaskCompleted", "TaskCreated", "SubagentStart", "SubagentStop", "Stop")


async def made(tmp_path: Path, **request: Any) -> AgentSpec:
    (tmp_path / "repo/.git").mkdir(parents=True, exist_ok=True)
    files = SpawnFiles(tmp_path / ".bullpen", {"HOME": str(tmp_path)})
    asked = SpawnRequest(cwd=str(tmp_path / "repo"), driver="scripted", script="x", **request)
    return await resolve(asked, files)


@shows("tool-names")
def test_tool_names() -> None:
    known = {"Read", "Write", "Edit", "Bash", "BashOutput", "KillShell", "Glob", "Grep", "Task"}
    known |= {"TaskCreate", "TaskGet", "TaskUpdate", "TaskList", "SendMessage"}
    known |= {"TeamCreate", "TeamDelete", "EnterPlanMode", "ExitPlanMode"}
    assert known <= {tool.name for tool in TOOLS}


@shows("settings-json")
async def test_settings_json(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    said = {
        "permissions": {
            "allow": ["Bash(make:*)"],
            "deny": ["Read(.env)"],
            "defaultMode": "acceptEdits",
            "disableBypassPermissionsMode": "disable",
        },
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
    }
    (tmp_path / ".claude/settings.json").write_text(json.dumps(said))
    spec = await made(tmp_path)
    assert (spec.policy.allow, spec.policy.deny) == (["Bash(make:*)"], ["Read(.env)"])
    assert spec.mode == "acceptEdits" and "Stop" in (spec.hooks or {})
    with pytest.raises(Refused) as error:
        await made(tmp_path, mode="bypassPermissions")
    assert error.value.reason == "mode_disabled"


@shows("hook-events")
def test_hook_events() -> None:
    command = {"hooks": [{"type": "command", "command": "true"}]}
    found = HookSet.of({event: [command] for event in HOOKS})
    assert not found.unused
