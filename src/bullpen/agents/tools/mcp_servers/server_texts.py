"""Tools for what servers offer besides tools: resources and prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from pydantic import Field

from bullpen.agents.contracts.tool import ToolInput
from bullpen.agents.tools.mcp_servers.connection import ServerConnection
from bullpen.agents.tools.mcp_servers.results import content_text, resource_text

_LISTED_MAX = 200


class ReadResourceInput(ToolInput):
    """Input of read_resource."""

    uri: str | None = Field(None, description="Which one; without it, all are listed")


class GetPromptInput(ToolInput):
    """Input of get_prompt."""

    name: str | None = Field(None, description="Which one; without it, all are listed")
    arguments: dict[str, str] = Field(default_factory=dict, description="Its arguments")


@dataclass(frozen=True, slots=True)
class TextTool:
    """A tool that every server with a certain capability gets."""

    name: str
    description: str
    input: type[ToolInput]
    offered: Callable[[types.ServerCapabilities], bool]
    run: Callable[[Any, ServerConnection], Awaitable[str]]


async def _read(given: ReadResourceInput, connection: ServerConnection) -> str:
    if given.uri is not None:
        params = types.ReadResourceRequestParams(uri=given.uri)
        result = await connection.ask(
            types.ReadResourceRequest(params=params), types.ReadResourceResult
        )
        return "\n".join(resource_text(each) for each in result.contents)
    listed = await connection.ask(types.ListResourcesRequest(), types.ListResourcesResult)
    lines = [f"{each.uri}: {each.description or each.name}" for each in listed.resources]
    return _lines(lines, more=bool(listed.next_cursor))


async def _prompt(given: GetPromptInput, connection: ServerConnection) -> str:
    if given.name is not None:
        params = types.GetPromptRequestParams(name=given.name, arguments=given.arguments)
        result = await connection.ask(types.GetPromptRequest(params=params), types.GetPromptResult)
        return "\n".join(f"{each.role}: {content_text([each.content])}" for each in result.messages)
    listed = await connection.ask(types.ListPromptsRequest(), types.ListPromptsResult)
    lines = [
        f"{each.name}({', '.join(one.name for one in each.arguments or ())}):"
        f" {each.description or ''}"
        for each in listed.prompts
    ]
    return _lines(lines, more=bool(listed.next_cursor))


def _lines(lines: list[str], *, more: bool) -> str:
    shown = lines[:_LISTED_MAX]
    if more or len(lines) > len(shown):
        shown.append("(there are more)")
    return "\n".join(shown) or "(none)"


TEXT_TOOLS = (
    TextTool(
        "read_resource",
        "List the resources of this MCP server, or read one.",
        ReadResourceInput,
        lambda can: can.resources is not None,
        _read,
    ),
    TextTool(
        "get_prompt",
        "List the prompts of this MCP server, or get one.",
        GetPromptInput,
        lambda can: can.prompts is not None,
        _prompt,
    ),
)
