"""Checks names of tools in roles, settings and requests."""

from __future__ import annotations

from collections.abc import Container, Iterable

from bullpen.agents.contracts.installed_parts import InstalledPart, find_part
from bullpen.agents.permissions.rule_language.rule import (
    EVERY_SERVER,
    OTHER_TOOLS,
    is_server_tool,
    tool_of,
)
from bullpen.agents.permissions.rule_language.tool_names import TOOL_KINDS, TOOL_NAMES
from bullpen.agents.system.vendors.programs import is_foreign
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec

NOT_FOR_PACKAGES = frozenset([*TOOL_NAMES, *OTHER_TOOLS])
"""The tools that no package can provide: Bullpen's, and those of Claude Code."""

EVERYTHING = "*"
"""In a list of tools: all that come with Bullpen, and those of its servers."""


def package_tool(name: str) -> InstalledPart | None:
    """The tool of this name that a package provides. Raises Invalid if several do."""
    if name in NOT_FOR_PACKAGES or name.startswith("mcp__"):
        return None
    return find_part("tool", name, NOT_FOR_PACKAGES)


class _KnownTools(Container[str]):
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in TOOL_KINDS or package_tool(name) is not None)


KNOWN_TOOLS: Container[str] = _KnownTools()
"""The tools that rules can be about: Bullpen's, and those of packages."""


def all_named(names: Iterable[str]) -> list[str] | None:
    """A list of tools with `*` written out; None if it names everything and nothing more."""
    given = list(dict.fromkeys(names))
    if EVERYTHING not in given:
        return given
    given.remove(EVERYTHING)
    return list(dict.fromkeys([*TOOL_NAMES, EVERY_SERVER, *given])) if given else None


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
