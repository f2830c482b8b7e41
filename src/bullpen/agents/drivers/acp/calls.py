"""The calls of a driven program, as the gate judges calls. Pure. In doubt the stricter kind."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from bullpen.agents.drivers.acp.events import Diff, ToolUse
from bullpen.agents.policy.call import Call
from bullpen.agents.tools.box import TOOLS

_SHELLS = frozenset({"shell", "bash", "run_shell_command", "exec_command", "execute_command"})
_WRITERS = frozenset({"write", "edit", "write_file", "edit_file", "text_editor", "replace"})
_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file")
_COMMANDS = ("command", "cmd", "script")
_TEAM_TOOLS = frozenset(tool.name for tool in TOOLS if tool.kind == "team")


def is_of_team(use: ToolUse, server: str) -> bool:
    """Whether it calls a tool of our own server: that call is judged where it arrives."""
    return use.server == server and use.tool in _TEAM_TOOLS


def is_plan(use: ToolUse) -> bool:
    """Whether it wants to leave the program's own plan mode."""
    return use.kind == "switch_mode"


def plan_of(use: ToolUse, said: str) -> str:
    """The plan that is to be approved: in the call, or else what was said last."""
    plan = use.input.get("plan")
    if isinstance(plan, str) and plan.strip():
        return plan
    return "\n\n".join(text for text in use.texts if text.strip()) or said


def calls_of(use: ToolUse) -> list[Call]:
    """What has to be permitted before the call may be made: all of it, or it may not."""
    if use.server:
        return [_other(use)]
    if use.kind == "execute" or use.tool.lower() in _SHELLS:
        command = _command(use.input)
        return [_other(use) if command is None else _made(use, "Bash", "run", command=command)]
    if use.kind in ("edit", "delete", "move") or use.tool.lower() in _WRITERS:
        return _writes(use)
    if use.kind == "read" and (paths := _paths(use)):
        return [_made(use, "Read", "read", file_path=path) for path in paths]
    if use.kind == "search":
        return [_made(use, "Grep", "read", **given) for given in _searches(use)]
    return [_other(use)]


def _writes(use: ToolUse) -> list[Call]:
    changes = {diff.path: diff for diff in use.diffs}
    paths = _paths(use)
    if not paths:
        # Nobody can say what it would change.
        return [_other(use)]
    return [_write(use, path, changes.get(path)) for path in paths]


def _write(use: ToolUse, path: str, diff: Diff | None) -> Call:
    content = use.input.get("content")
    if diff is None and isinstance(content, str):
        return _made(use, "Write", "write", file_path=path, content=content)
    if diff is None:
        return _made(use, "Edit", "write", file_path=path)
    if diff.old is None:
        return _made(use, "Write", "write", file_path=path, content=diff.new)
    return _made(use, "Edit", "write", file_path=path, old_string=diff.old, new_string=diff.new)


def _paths(use: ToolUse) -> list[str]:
    """Every path that the call names anywhere."""
    named = [use.input[name] for name in _PATHS if isinstance(use.input.get(name), str)]
    # Codex: the changes of a patch, by path.
    changes = use.input.get("changes")
    listed = list(changes) if isinstance(changes, Mapping) else []
    found = [*named, *listed, *(diff.path for diff in use.diffs), *use.paths]
    return list(dict.fromkeys(str(path) for path in found if path))


def _searches(use: ToolUse) -> list[dict[str, Any]]:
    pattern = str(use.input.get("pattern") or use.input.get("query") or use.title)
    return [{"pattern": pattern, "path": path} for path in _paths(use)] or [{"pattern": pattern}]


def _command(given: Mapping[str, Any]) -> str | None:
    for name in _COMMANDS:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value:
            return shlex.join(str(word) for word in value)
    return None


def _other(use: ToolUse) -> Call:
    """A call of which we know nothing but its name: as strict as a command."""
    if use.server:
        arguments = use.input.get("arguments")
        given = arguments if isinstance(arguments, dict) else use.input
        return Call(f"mcp__{use.server}__{use.tool}", dict(given), "run", use.id)
    name = {"fetch": "WebFetch"}.get(use.kind) or use.tool or use.kind or "Tool"
    given = dict(use.input) or {"title": use.title}
    return Call(name, given, "run", use.id)


def _made(use: ToolUse, tool: str, kind: Any, **given: Any) -> Call:
    return Call(tool, given, kind, use.id)


def in_words(given: Mapping[str, Any]) -> str:
    """The input of a call, for the model."""
    return json.dumps(dict(given), ensure_ascii=False)
