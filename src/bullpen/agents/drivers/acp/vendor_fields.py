"""Read vendors' additions to the protocol, such as the tool of a call and its usage. Pure.

Each vendor added its own fields. They are read only here, as plain JSON. A field that does not look
as it was observed is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bullpen.agents.drivers.acp.program_events import AuthMethod, ToolUse
from bullpen.protocol.agent import Usage


def tool_of(call: Mapping[str, Any]) -> tuple[str, str]:
    """The server and the tool of a call; the server is empty for the program's own tools."""
    meta = _table(call.get("_meta"))
    raw = _table(call.get("rawInput"))
    if meta.get("is_mcp_tool_call") is True:
        # Codex. Its approvals contain only the id of such a call.
        return _text(raw.get("server")), _text(raw.get("tool"))
    goose = _table(_table(meta.get("goose")).get("toolCall"))
    if goose:
        extension, tool = _text(goose.get("extensionName")), _text(goose.get("toolName"))
        tool = tool.removeprefix(f"{extension}__")
        return "" if extension in _GOOSE_OWN else extension, tool
    told = _table(meta.get("claudeCode")).get("toolName"), meta.get("toolName"), call.get("name")
    name = next((_text(each) for each in told if each), "")
    if not name and (vibe := _text(meta.get("tool_name"))):
        # Vibe: mcp_SERVER.TOOL.
        server, dot, tool = vibe.removeprefix("mcp_").rpartition(".")
        return (server, tool) if dot and vibe.startswith("mcp_") else ("", vibe)
    if name.startswith("mcp__"):
        # Claude and Qwen: mcp__SERVER__TOOL.
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return server, tool
    return "", name


# Its own tools are in extensions; this one has those for files and commands.
_GOOSE_OWN = frozenset({"developer"})


def named_by_id(use: ToolUse) -> ToolUse:
    """Gemini: read the tool from the id of a call (TOOL__...) and a command from its title.

    Only for programs that generate the ids of their calls: elsewhere a model may choose them.
    """
    name = use.id.partition("__")[0]
    server, _, tool = name.removeprefix("mcp_").partition("_")
    if not name.startswith("mcp_"):
        server, tool = "", name
    is_command = use.kind == "execute" and not server
    given = {"command": use.title} if is_command else use.input
    return replace(use, server=server, tool=tool, input=given)


def auth_methods(rows: object) -> tuple[AuthMethod, ...]:
    """The offered ways to log in. Some mark a login by hand by a type, some in their `_meta`."""
    methods = []
    for row in map(_table, rows if isinstance(rows, list) else []):
        by_hand = row.get("type") == "terminal" or "terminal-auth" in _table(row.get("_meta"))
        if method := _text(row.get("id")):
            methods.append(AuthMethod(method, _text(row.get("name")) or method, by_hand))
    return tuple(methods)


def run_of(meta: Mapping[str, Any] | None) -> str | None:
    """Goose: the id of the run that has started."""
    return _text(_table(_table(meta).get("goose")).get("activeRunId")) or None


def begins(meta: Mapping[str, Any] | None) -> bool:
    """Codex: whether it starts to work."""
    return _status(meta) == "active"


def broke(meta: Mapping[str, Any] | None) -> bool:
    """Codex: whether the turn failed. Its result does not say so."""
    return _status(meta) == "systemError"


def _status(meta: Mapping[str, Any] | None) -> str:
    status = _table(_table(_table(meta).get("codex")).get("threadStatus"))
    return _text(status.get("type"))


def model_of(meta: Mapping[str, Any] | None) -> str | None:
    """Claude: the model that a request went to."""
    return _text(_table(meta).get("_claude/model")) or None


def chunk_usage(meta: Mapping[str, Any] | None) -> Usage | None:
    """Qwen: the usage of a request, sent with a piece of the answer."""
    used = _table(_table(meta).get("usage"))
    return usage_of(used) if used else None


def quota_of(meta: Mapping[str, Any] | None) -> tuple[Usage | None, tuple[str, ...]]:
    """Gemini, Codex, Claude: the usage of a turn, and its models."""
    quota = _table(_table(meta).get("quota"))
    count = _table(quota.get("token_count"))
    rows = quota.get("model_usage")
    names = [_text(_table(row).get("model")) for row in rows] if isinstance(rows, list) else []
    return usage_of(count) if count else None, tuple(name for name in names if name)


def steered(answer: object) -> bool:
    """Whether the program accepted a text for the running turn."""
    return _table(answer).get("outcome") == "injected"


def usage_of(told: Mapping[str, Any]) -> Usage:
    """The usage. Some vendors count cached tokens as input too; their total tells which."""
    sent = _count(told, "inputTokens", "input_tokens")
    said = _count(told, "outputTokens", "output_tokens")
    read = _count(told, "cachedReadTokens", "cachedInputTokens", "cached_tokens")
    written = _count(told, "cachedWriteTokens", "cacheWriteInputTokens")
    if _count(told, "totalTokens", "total_tokens") == sent + said:
        sent = max(sent - read - written, 0)
    return Usage.new(
        # The program does not say how many requests there were; at least one.
        requests=1,
        input_tokens=sent,
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
        unpriced=1,
    )


_TOKENS_MAX = 10**12


def _count(told: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = told.get(name)
        if isinstance(value, int) and 0 <= value < _TOKENS_MAX:
            return value
    return 0


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
