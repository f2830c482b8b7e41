"""Checks names of tools in roles, settings and requests."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.agents.permissions.rule_language.package_names import KNOWN_TOOLS
from bullpen.agents.permissions.rule_language.rule import OTHER_TOOLS, is_server_tool, tool_of
from bullpen.agents.permissions.rule_language.tool_names import TOOL_NAMES
from bullpen.agents.system.vendors.programs import is_foreign
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec


def check_tools(names: Iterable[str]) -> None:
    """Refuse names of tools that do not exist. Raises Invalid."""
    unknown = [name for name in names if tool_of(name) not in KNOWN_TOOLS]
    unknown = [name for name in unknown if not is_server_tool(name)]
    if unknown:
        raise Invalid(
            f"Unknown tools: {', '.join(map(repr, unknown))}.",
            remedy=f"Use one of these tools: {', '.join(TOOL_NAMES)}.",
        )


def unknown_tools(names: Iterable[str], driver: str) -> list[str]:
    """The names that no tool of an agent with this driver has, nor perhaps a server of it.

    Another vendor's program may have more tools than Bullpen's agents: those of Claude Code.
    """
    others = OTHER_TOOLS if is_foreign(driver) else frozenset()
    return [
        name
        for name in map(str.strip, names)
        if tool_of(name) not in others
        and not is_server_tool(name)
        and tool_of(name) not in KNOWN_TOOLS
    ]


def missing_tools(spec: AgentSpec) -> list[str]:
    """The tools that an agent was given by name and does not have, because nothing here is one."""
    return [
        name
        for name in spec.tools or ()
        if unknown_tools([name], spec.driver)
        or (is_server_tool(name) and not is_foreign(spec.driver) and not _has_server(name, spec))
    ]


def _has_server(name: str, spec: AgentSpec) -> bool:
    """Whether an agent has the server of a tool of this name."""
    servers = spec.mcp_servers or {}
    return any(name == "mcp__*" or f"{name}__".startswith(f"mcp__{each}__") for each in servers)
