"""The names of tools that packages provide, beside those of Bullpen's own."""

from __future__ import annotations

from collections.abc import Container, Iterable

from bullpen.agents.contracts.installed_parts import InstalledPart, find_part
from bullpen.agents.permissions.rule_language.rule import EVERY_SERVER, OTHER_TOOLS
from bullpen.agents.permissions.rule_language.tool_names import TOOL_KINDS, TOOL_NAMES

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
