"""What programs tell beside the protocol: which tool a call is of, and what it used. Pure.

It is in fields that each vendor added. They are read only here, as plain JSON, and what is not as
it was observed counts as not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bullpen.agents.drivers.acp.events import ToolUse
from bullpen.protocol.agent import Usage


def tool_of(call: Mapping[str, Any]) -> tuple[str, str]:
    """The server and the tool of a call; the server is empty for a tool of the program's own."""
    meta = _table(call.get("_meta"))
    raw = _table(call.get("rawInput"))
    if meta.get("is_mcp_tool_call") is True:
        # Codex. Its approvals hold nothing but the id of such a call.
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


# Its own tools come in extensions; this one has those for files and commands.
_GOOSE_OWN = frozenset({"developer"})


def named_by_id(use: ToolUse) -> ToolUse:
    """Gemini: a call with what it tells in other places: TOOL__... is the id, a command the title.

    Only for a program that makes the ids of its calls itself: those of others a model may choose.
    """
    name = use.id.partition("__")[0]
    server, _, tool = name.removeprefix("mcp_").partition("_")
    if not name.startswith("mcp_"):
        server, tool = "", name
    is_command = use.kind == "execute" and not server
    given = {"command": use.title} if is_command else use.input
    return replace(use, server=server, tool=tool, input=given)


def run_of(meta: Mapping[str, Any] | None) -> str | None:
    """Goose: the id of the run that has begun."""
    return _text(_table(_table(meta).get("goose")).get("activeRunId")) or None


def broke(meta: Mapping[str, Any] | None) -> bool:
    """Codex: whether the turn has failed. It ends as if it had not."""
    status = _table(_table(_table(meta).get("codex")).get("threadStatus"))
    return status.get("type") == "systemError"


def model_of(meta: Mapping[str, Any] | None) -> str | None:
    """Claude: the model that a request went to."""
    return _text(_table(meta).get("_claude/model")) or None


def chunk_usage(meta: Mapping[str, Any] | None) -> Usage | None:
    """Qwen: what a request used, told with a piece of its answer."""
    used = _table(_table(meta).get("usage"))
    return usage_of(used) if used else None


def quota_of(meta: Mapping[str, Any] | None) -> tuple[Usage | None, tuple[str, ...]]:
    """Gemini, Codex, Claude: what a turn used, and which models it used."""
    quota = _table(_table(meta).get("quota"))
    count = _table(quota.get("token_count"))
    rows = quota.get("model_usage")
    names = [_text(_table(row).get("model")) for row in rows] if isinstance(rows, list) else []
    return usage_of(count) if count else None, tuple(name for name in names if name)


def steered(answer: object) -> bool:
    """Whether the program took what it was given for the turn that goes on."""
    return _table(answer).get("outcome") == "injected"


def usage_of(told: Mapping[str, Any]) -> Usage:
    """What was used, as the protocol or a vendor names it.

    Some count what came from a cache as input, too, and some beside it: their total tells.
    """
    sent = _count(told, "inputTokens", "input_tokens")
    said = _count(told, "outputTokens", "output_tokens")
    read = _count(told, "cachedReadTokens", "cachedInputTokens", "cached_tokens")
    written = _count(told, "cachedWriteTokens", "cacheWriteInputTokens")
    if _count(told, "totalTokens", "total_tokens") == sent + said:
        sent = max(sent - read - written, 0)
    return Usage.new(
        # How many requests they were the program does not say; at least one.
        requests=1,
        input_tokens=sent,
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
        unpriced=1,
    )


def _count(told: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = told.get(name)
        if isinstance(value, int) and value >= 0:
            return value
    return 0


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
