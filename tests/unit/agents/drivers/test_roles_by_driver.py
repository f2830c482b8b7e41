"""R-9.7: every field of a role holds for a program of others too, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.definitions import Definition, apply, read
from bullpen.agents.config.role_fields import COORDINATION
from bullpen.agents.contracts.call import Call
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.agents.permissions.agent_rights import rights_of
from bullpen.agents.permissions.decide import decide
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentFacts, AgentSpec
from support.rows import each_row

FOREIGN = [driver for driver in DRIVERS if driver not in ("native", "scripted")]

GUARD = "hooks:\n  PreToolUse:\n    - matcher: {}\n      hooks: [{{type: command, command: ./x}}]\n"

EVERY_FIELD = """\
description: Reviews changes
color: blue
tools: Read, Grep, Bash, TaskUpdate
disallowedTools: [Write, 'Bash(rm:*)', WebFetch]
model: opus
permissionMode: plan
maxTurns: 7
initialPrompt: Begin with the newest change.
background: true
skills:
mcpServers: []
""" + GUARD.format("Bash")

REFUSED = {
    "effort: high": "effort: .*only the driver native can set it",
    "tools: Bash": "tools: .*so Read cannot be taken away",
    "tools: 'Bash, Read(/docs/**)'": "tools: .*so Read cannot be taken away",
    "tools: []": "tools: .*so Read cannot be taken away",
    "disallowedTools: Read": "disallowedTools: .*cannot be enforced: Read",
    "disallowedTools: [Bash, Glob]": "disallowedTools: .*cannot be enforced: Glob",
    "disallowedTools: 'Read(~/.ssh/**)'": r"disallowedTools: .*enforced: Read\(~/\.ssh/\*\*\)",
    GUARD.format("Read|Edit"): r"hooks: .*PreToolUse for Read\|Edit",
    "skills: {a: 1}": "skills: it is not a list of names",
    "mcpServers: [github]": "mcpServers: .*only the driver native connects to them",
    "memory: project": "memory: .*only the driver native can set it",
    "isolation: container": "isolation: there is no isolation 'container'",
    "temperature: 0.3": "temperature: there is no such field",
}


def made(folder: Path, front: str) -> Definition:
    path = folder / ".bullpen" / "agents" / "role.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: role\n{front.rstrip()}\n---\n\nDo it well.\n", "utf-8")
    return read(path)


def spec(driver: str, **fields: Any) -> AgentSpec:
    return AgentSpec.new(driver=driver, backend="subprocess", cwd="/project", **fields)


@each_row("driver", FOREIGN)
def test_every_field_of_a_role_is_applied_to_every_program(tmp_path: Path, driver: str) -> None:
    """R-9.7: role with every field set."""
    result = apply(made(tmp_path, EVERY_FIELD), spec(driver, prompt="Look at #7."))
    assert result.instructions == "Do it well."
    assert result.prompt == "Begin with the newest change.\n\nLook at #7."
    assert result.tools == list(
        dict.fromkeys(["Read", "Grep", "Bash", "TaskUpdate", *COORDINATION])
    )
    assert result.disallowed_tools == ["Write", "WebFetch"]
    assert result.policy.deny == ["Bash(rm:*)"]
    assert (result.model, result.mode, result.turns_max) == ("opus", "plan", 7)
    assert result.hooks is not None and list(result.hooks) == ["PreToolUse"]


@each_row("driver", ["codex", "acp"])
@each_row("field", REFUSED)
def test_what_a_program_could_not_keep_is_refused_by_name(
    tmp_path: Path, field: str, driver: str
) -> None:
    definition = made(tmp_path, field)
    with pytest.raises(Invalid, match=REFUSED[field]) as refused:
        apply(definition, spec(driver))
    assert str(definition.path) in refused.value.message


def test_a_hook_for_every_tool_is_taken_and_sees_what_is_asked_for(tmp_path: Path) -> None:
    assert apply(made(tmp_path, GUARD.format("'*'")), spec("codex")).hooks


@pytest.mark.parametrize(
    ("tool", "given", "effect"),
    [
        ("Bash", {"command": "make"}, "allow"),
        ("Bash", {"command": "rm -rf build"}, "deny"),
        ("Write", {"file_path": "/project/a"}, "deny"),
        ("Edit", {"file_path": "/project/a"}, "deny"),
        ("mcp__github__push", {}, "deny"),
        ("WebFetch", {"url": "https://x.org"}, "deny"),
    ],
)
def test_the_tools_of_a_role_hold_for_what_a_program_asks_for(
    tmp_path: Path, tool: str, given: dict[str, Any], effect: str
) -> None:
    """A program's own tools cannot be taken away; what it asks for with them is denied."""
    role = made(tmp_path, "tools: Read, Bash\ndisallowedTools: 'Bash(rm:*)'\n")
    agent = AgentFacts.new(
        spec=apply(role, spec("codex", mode="bypassPermissions")).raw, nonce="n", since_ms=1
    )
    kind: Any = "write" if "file_path" in given else "run"
    ruling = decide(Call(tool, given, kind), rights_of(agent, user_home="/home/u"))
    assert ruling.effect == effect
