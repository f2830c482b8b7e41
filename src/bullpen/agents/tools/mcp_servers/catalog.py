"""The tools that a server offers, as a model may see them. Pure.

A server can say anything: names that no API accepts, endless schemas, texts that pose as ours.
What cannot be used is left out, with the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bullpen.agents.tools.mcp_servers.schemas import Clean, UnsafeSchema, safe_schema, short
from bullpen.protocol import json_text

TOOLS_MAX = 1_000
"""How many tools of one server can be used."""

DESCRIPTION_CHARS_MAX = 1_000

# The shortest limit among models' APIs.
_NAME_CHARS_MAX = 64
_OWN_NAME_CHARS_MAX = 200
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class ListedTool(Protocol):
    """A tool as a server lists it."""

    name: str
    description: str | None
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool that can be used: its name for models, and the server's own name for it."""

    name: str
    own_name: str
    description: str
    schema: dict[str, Any]
    # The SHA-256 of everything that the server said about it and that matters for its use.
    digest: str


@dataclass(slots=True)
class Catalog:
    """The tools of one server, and why others of its tools cannot be used."""

    tools: dict[str, ServerTool] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def group_of(server: str) -> str:
    """How the names of a server's tools begin."""
    return f"mcp__{server}"


def catalog(server: str, listed: Iterable[ListedTool], clean: Clean) -> Catalog:
    """The tools of a server that can be used."""
    made = Catalog()
    for number, tool in enumerate(listed):
        if number >= TOOLS_MAX:
            made.left_out.append(f"all tools after the first {TOOLS_MAX}")
            break
        shown = short(clean(tool.name), _NAME_CHARS_MAX)
        if not tool.name or len(tool.name) > _OWN_NAME_CHARS_MAX:
            made.left_out.append(f"{shown!r}: its name is empty or too long")
            continue
        name = model_name(server, tool.name)
        if name in made.tools:
            made.left_out.append(f"{shown!r}: another tool has this name")
            continue
        try:
            schema = safe_schema(tool.input_schema, clean)
        except UnsafeSchema as unsafe:
            made.left_out.append(f"{shown!r}: {unsafe}")
            continue
        about = " ".join(clean(tool.description or "").split())
        made.tools[name] = ServerTool(
            name,
            tool.name,
            short(about, DESCRIPTION_CHARS_MAX) or f"{shown} of the MCP server {server}.",
            schema,
            _digest(tool),
        )
    return made


def model_name(server: str, own_name: str) -> str:
    """The name of a tool for models. What is too long ends with a hash of the whole name."""
    name = f"{group_of(server)}__{_ODD.sub('_', own_name)}"
    if len(name) <= _NAME_CHARS_MAX:
        return name
    mark = hashlib.sha256(own_name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: _NAME_CHARS_MAX - 9]}_{mark}"


def changes(pinned: Mapping[str, ServerTool], now: Mapping[str, ServerTool]) -> dict[str, str]:
    """The tools that are no longer what they were, each with what happened to it."""
    found = {}
    for name, tool in pinned.items():
        if name not in now:
            found[name] = "was removed"
        elif now[name].digest != tool.digest:
            found[name] = "changed its description or input"
    return found


def _digest(tool: ListedTool) -> str:
    told = {"name": tool.name, "about": tool.description, "input": tool.input_schema}
    return hashlib.sha256(json_text.dumps_line(told)).hexdigest()
