"""The tools that other installed packages provide, for the agents that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.installed_parts import InstalledPart
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.permissions.rule_language.package_names import package_tool
from bullpen.protocol.agent import AgentSpec

_NAME = re.compile(r"(?!mcp__)[A-Za-z][A-Za-z0-9_-]{0,63}")
_KINDS = ("read", "write", "run")


def package_tools(spec: AgentSpec) -> Iterator[Tool[Desk]]:
    """The tools of packages that an agent is given by name. Imports no others.

    Raises Unavailable if one of them cannot be used.
    """
    for name in dict.fromkeys(spec.tools or ()):
        if (part := package_tool(name)) is not None:
            yield tool_from(part)


@lru_cache
def tool_from(part: InstalledPart) -> Tool[Desk]:
    """The tool that a package provides, as it is judged here. Raises Unavailable.

    Its calls never pass as those of a team tool: an unknown kind counts as running commands.
    """
    found = part.load()
    if not isinstance(found, Tool):
        raise part.broken("it is not a Tool")
    if found.name != part.name:
        raise part.broken(f"it calls itself {found.name!r}")
    if _NAME.fullmatch(part.name) is None:
        raise part.broken("its name must be letters, digits, _ and -, and not begin with mcp__")
    return replace(found, kind=found.kind if found.kind in _KINDS else "run", asks_itself=False)
