"""Translate a program's tool calls for the gate; if unclear, as the stricter kind. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from bullpen.agents.contracts.call import Call
from bullpen.agents.drivers.acp.program_events import Diff, ToolUse
from bullpen.agents.permissions.rule_language.tool_names import TEAM_TOOLS

_WRITERS = frozenset({"write", "edit", "write_file", "edit_file", "text_editor", "replace"})
_PATHS = (
    *("file_path", "filePath", "filepath", "path", "absolute_path"),
    *("notebook_path", "target_file"),
)
_FILE_SEARCHES = frozenset(
    """
    grep glob ls grep_search search_file_content find_files file_search list_directory rg tree
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_ABOUT_FILES = ("pattern", "glob", "regex", "include", *_PATHS)
_WEB = re.compile(r"web.?search|search\w* the web|internet", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s\"'<>)]+")
_COMMANDS = ("command", "cmd", "script")


def is_of_team(use: ToolUse, server: str) -> bool:
    """Whether it calls a tool of our own server, which decides about the call itself."""
    return use.server == server and use.tool in TEAM_TOOLS


def refused_tool(use: ToolUse, names: Collection[str]) -> str | None:
    """The name of the tool, if the preset refuses its calls."""
    name = f"mcp__{use.server}__{use.tool}" if use.server else use.tool
    return name if name in names else None


def is_plan(use: ToolUse) -> bool:
    """Whether the call would leave the program's own plan mode."""
    return use.kind == "switch_mode"


def plan_of(use: ToolUse, said: str) -> str:
    """The plan to approve: from the call, or else the last text."""
    plan = use.input.get("plan")
    if isinstance(plan, str) and plan.strip():
        return plan
    return "\n\n".join(text for text in use.texts if text.strip()) or said


def calls_of(use: ToolUse) -> list[Call]:
    """The calls that must all be permitted before the program may make its call."""
    if use.server:
        return [_other(use)]
    writes = use.kind in ("edit", "delete", "move") or use.tool.lower() in _WRITERS
    command = None if writes else _command(use.input)
    if command is not None:
        # Whatever its kind: a command that searches can also do something else.
        return [_made(use, "Bash", "run", command=command)]
    if writes:
        return _writes(use)
    if use.kind == "read" and (paths := _paths(use)):
        return [_made(use, "Read", "read", file_path=path) for path in paths]
    if use.kind == "search" and _searches_files(use):
        pattern = str(use.input.get("pattern") or use.input.get("query") or use.title)
        named = [{"path": path} for path in _paths(use)] or [{}]
        return [_made(use, "Grep", "read", pattern=pattern, **path) for path in named]
    return [_other(use)]


def _searches_files(use: ToolUse) -> bool:
    """Whether a search is surely about files. A search of the web would look the same else."""
    if _WEB.search(use.tool) or _WEB.search(use.title):
        return False
    return use.tool.lower() in _FILE_SEARCHES or any(use.input.get(name) for name in _ABOUT_FILES)


def _writes(use: ToolUse) -> list[Call]:
    changes = {diff.path: diff for diff in use.diffs}
    paths = _paths(use)
    if not paths:
        # It is not known what this call would change.
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
    """Every path that the call names."""
    named = [use.input[name] for name in _PATHS if isinstance(use.input.get(name), str)]
    # Codex: the changes of a patch, by path.
    changes = use.input.get("changes")
    listed = list(changes) if isinstance(changes, Mapping) else []
    found = [*named, *listed, *(diff.path for diff in use.diffs), *use.paths]
    # OpenCode: the folder of the file that it asks about.
    folder = use.input.get("parentDir") if named else None
    return list(dict.fromkeys(str(path) for path in found if path and path != folder))


def _command(given: Mapping[str, Any]) -> str | None:
    for name in _COMMANDS:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value:
            return shlex.join(str(word) for word in value)
    return None


def _other(use: ToolUse) -> Call:
    """A call that we know only by name; it is treated as strictly as a command."""
    if use.server:
        arguments = use.input.get("arguments")
        given = arguments if isinstance(arguments, dict) else use.input
        return Call(f"mcp__{use.server}__{use.tool}", dict(given), "run", use.id)
    given = dict(use.input) or {"title": use.title}
    if use.kind in ("fetch", "search") and (_WEB.search(use.tool) or _WEB.search(use.title)):
        return Call("WebSearch", given, "run", use.id)
    if use.kind == "fetch":
        url = given.get("url") or next(iter(_URL.findall(f"{use.title} {given}")), None)
        return Call("WebFetch", given if url is None else {**given, "url": url}, "run", use.id)
    name = use.tool or (use.kind if use.kind != "other" else "") or "Tool"
    return Call(name, given, "run", use.id)


def _made(use: ToolUse, tool: str, kind: Any, **given: Any) -> Call:
    return Call(tool, given, kind, use.id)


def in_words(given: Mapping[str, Any]) -> str:
    """The input of a call, for the model."""
    return json.dumps(dict(given), ensure_ascii=False)
