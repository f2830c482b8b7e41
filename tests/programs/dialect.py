"""Our names for tools in the words of the program that asks: what a model would have called.

Every program offers its model other tools: `Bash` is `exec_command` in one and `shell` in another,
and a tool of the team has the name of its server in front, or has to be searched for first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME
from bullpen.testing.models import Call, ModelRequest

_SHELLS = (
    "Bash",
    "bash",
    "shell",
    "developer__shell",
    "exec_command",
    "shell_command",
    "run_shell_command",
)
_WRITERS = ("Write", "write", "write_file", "developer__write", "apply_patch")
_READERS = ("Read", "read", "read_file", "developer__read_file")
_SEARCHES: Mapping[str, str] = {
    "ToolSearch": "query",
    "tool_search": "query",
    "search_tool_functions": "query",
}
_FILLERS: Mapping[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}


def offers_work(request: ModelRequest) -> bool:
    """Whether it is asked to work, and not for a title, a summary or a classification."""
    names = request.tools
    return bool(_first(names, _SHELLS) or _team_tool(request, "") or _first(names, _SEARCHES))


def spoken(call: Call, request: ModelRequest, *, own: Collection[str] = ()) -> Call:
    """A call of ours as this program understands it; a search, if the tool has to be found first.

    A tool in `own` is the program's own of that name, if it has one, and not the team's. What the
    program does not offer at all is called as it is: it will say that there is no such tool.
    """
    if call.name == "Bash":
        return _shell(call, request)
    if call.name == "Write":
        return _write(call, request)
    if call.name == "Read":
        return _read(call, request)
    if call.name in request.tools and (call.name in own or not _team_tool(request, call.name)):
        return call
    return _team(call, request)


def is_search(call: Call) -> bool:
    """Whether a call only looks for a tool."""
    return call.name in _SEARCHES


def _shell(call: Call, request: ModelRequest) -> Call:
    name = _first(request.tools, _SHELLS)
    if name is None:
        return call
    schema = request.tools[name]
    known = schema.get("properties") or {}
    key = "cmd" if "cmd" in known else "command"
    command: Any = call.input["command"]
    if (known.get(key) or {}).get("type") == "array":
        command = ["bash", "-lc", command]
    given = {key: command}
    if "sandbox_permissions" in known:
        # Only what has to leave its sandbox is asked for.
        given |= {"sandbox_permissions": "require_escalated", "justification": "May I?"}
    return Call(name, _completed(given, schema), call.id)


def _write(call: Call, request: ModelRequest) -> Call:
    name = _first(request.tools, _WRITERS)
    if name is None:
        return call
    path, content = call.input["file_path"], call.input["content"]
    if name == "apply_patch":
        added = "".join(f"+{line}\n" for line in content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
        return Call(name, {"input": patch}, call.id)
    schema = request.tools[name]
    given = {_key(schema, "file_path", "filePath", "path"): path}
    given[_key(schema, "content", "file_text")] = content
    return Call(name, _completed(given, schema), call.id)


def _read(call: Call, request: ModelRequest) -> Call:
    name = _first(request.tools, _READERS)
    if name is None:
        return _shell(Call("Bash", {"command": f"cat {call.input['file_path']}"}, call.id), request)
    schema = request.tools[name]
    given = {_key(schema, "file_path", "filePath", "path"): call.input["file_path"]}
    return Call(name, _completed(given, schema), call.id)


def _team(call: Call, request: ModelRequest) -> Call:
    name = _team_tool(request, call.name)
    if name is not None:
        return Call(name, call.input, call.id)
    search = _first(request.tools, _SEARCHES)
    if search is None:
        return call
    found = _found(request, call.name)
    if found is None:
        return Call(search, _completed({_SEARCHES[search]: call.name}, request.tools[search]))
    if "tool_call" in request.tools:
        return Call("tool_call", {"name": found, "arguments": dict(call.input)}, call.id)
    if "run_typescript" in request.tools:
        asked = f"tools.{found}({json.dumps(dict(call.input))})"
        code = f"async function main() {{ return await {asked}; }}"
        return Call("run_typescript", {"code": code}, call.id)
    return Call(found, call.input, call.id)


def _team_tool(request: ModelRequest, name: str) -> str | None:
    """What the program calls a tool of the team; of any of them, if the name is empty."""
    pattern = re.compile(rf"(^|[^a-z0-9]){SERVER_NAME}[_.:/-]+{name or '[A-Z][A-Za-z]+'}$")
    return next((offered for offered in request.tools if pattern.search(offered)), None)


def _found(request: ModelRequest, name: str) -> str | None:
    """The full name of a tool in what the last search brought, if the last call was a search."""
    last = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    if last is None or not any(is_search(call) for call in last.calls):
        return None
    names = re.findall(rf"[\w.-]*{SERVER_NAME}[\w.-]*{name}\b", request.given)
    return max(names, key=len, default=None)


def _first(offered: Collection[str], wanted: Collection[str]) -> str | None:
    return next((name for name in wanted if name in offered), None)


def _key(schema: Mapping[str, Any], *names: str) -> str:
    known = schema.get("properties") or {}
    return next((name for name in names if name in known), names[0])


def _completed(given: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The input with something in every other field that the tool insists on."""
    return given | {
        key: filler(schema["properties"].get(key) or {})
        for key in schema.get("required") or []
        if key not in given
    }


def filler(schema: Mapping[str, Any]) -> Any:
    """The least that fits a schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        known = schema.get("properties") or {}
        return {key: filler(known.get(key) or {}) for key in schema.get("required") or known}
    return _FILLERS.get(str(kind).lower(), "Something.")
