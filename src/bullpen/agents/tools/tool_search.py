"""ToolSearch: models see the tools that they always need, and load the others when they need them.

A request lists the tools that were loaded after all others, in the order of loading. So each load
changes the cached start of the requests once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.errors import Refused

LOADED_MAX = 5
"""How many tools one search loads by keywords."""

_NAMED_MAX = 20
_NAME_CHARS_MAX = 400
_GROUPS_MAX = 20
_GROUP_CHARS_MAX = 120
_ABOUT_CHARS_MAX = 200
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")


class ToolSearchInput(ToolInput):
    """Input of ToolSearch."""

    query: str = Field(min_length=1, max_length=400, description="Keywords, or names of tools")


async def _search(given: ToolSearchInput, desk: Desk) -> str:
    """Load more tools by keywords or names."""
    raise Refused(
        "Only native agents load tools.",
        reason="no_tool_search",
        remedy="Use the tools that you see.",
    )


TOOL_SEARCH: Tool[Desk] = documented("ToolSearch", ToolSearchInput, "team", _search)


class ToolShelf:
    """The deferred tools of one agent: which were loaded, and a search for the others."""

    def __init__(self, loaded: list[str]) -> None:
        """`loaded` are the names in the order of loading; searches append to it."""
        self._loaded = loaded

    def shown(self, tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
        """The tools for the next request: those that are not deferred, then the loaded ones."""
        # A role that lists a tool, but not the search, could not find it.
        listed = TOOL_SEARCH not in tools
        later = [tool for tool in tools if tool.deferred and not (listed and tool.group is None)]
        first = [self._told(tool, tools) for tool in tools if tool not in later]
        by_name = {tool.name: tool for tool in later}
        return first + [by_name[name] for name in self._loaded if name in by_name]

    def callable(self, tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
        """All tools, with a search among those that are deferred."""

        async def search(given: ToolSearchInput, desk: Desk) -> str:
            return self._found(given.query, tools)

        return [replace(tool, run=search) if tool is TOOL_SEARCH else tool for tool in tools]

    def _told(self, tool: Tool[Desk], tools: Sequence[Tool[Desk]]) -> Tool[Desk]:
        """The tool as the model sees it: the search says what can be found."""
        if tool is not TOOL_SEARCH:
            return tool
        return replace(tool, description=f"{tool.description} There are: {overview(tools)}.")

    def _found(self, query: str, tools: Sequence[Tool[Desk]]) -> str:
        hits = matching(query, tools)
        if not hits:
            raise Refused(
                f"No tool matches {query!r}.",
                reason="no_match",
                remedy=f"There are: {overview(tools)}.",
            )
        fresh = [tool for tool in hits[:LOADED_MAX] if tool.name not in self._loaded]
        self._loaded += [tool.name for tool in fresh]
        lines = ["Loaded; you can call them now:"]
        lines += [f"- {tool.name}: {_short(tool.description)}" for tool in hits[:LOADED_MAX]]
        if rest := [tool.name for tool in hits[LOADED_MAX:]]:
            more = f" and {len(rest) - _NAMED_MAX} more" if len(rest) > _NAMED_MAX else ""
            lines.append(f"Not loaded, but matching: {', '.join(rest[:_NAMED_MAX])}{more}.")
        return "\n".join(lines)


def matching(query: str, tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
    """The deferred tools that match, best first: those named in full, else those by keywords."""
    deferred = [tool for tool in tools if tool.deferred]
    wanted = {name.casefold() for name in re.split(r"[\s,]+", query.removeprefix("select:"))}
    named = [tool for tool in deferred if tool.name.casefold() in wanted]
    if named:
        return named
    words = _words(query)
    scored = [(_score(words, tool), tool) for tool in deferred]
    best = sorted((-score, at) for at, (score, _) in enumerate(scored) if score)
    return [scored[at][1] for _, at in best]


def overview(tools: Sequence[Tool[Desk]]) -> str:
    """What can be loaded, in few words: names, and for each server its number of tools."""
    alone, groups = [], dict[str, list[str]]()
    for tool in tools:
        if tool.deferred and tool.group is None:
            alone.append(tool.name)
        elif tool.deferred and tool.group is not None:
            groups.setdefault(tool.group, []).append(tool.name)
    parts = [_joined(alone, _NAME_CHARS_MAX)] if alone else []
    for group, names in list(groups.items())[:_GROUPS_MAX]:
        inner = [name.removeprefix(f"{group}__") for name in names]
        parts.append(f"{group} ({len(names)}: {_joined(inner, _GROUP_CHARS_MAX)})")
    if len(groups) > _GROUPS_MAX:
        parts.append(f"{len(groups) - _GROUPS_MAX} more servers")
    return "; ".join(parts) or "none"


def _joined(names: Sequence[str], chars: int) -> str:
    """As many names as there is room for."""
    taken: list[str] = []
    for name in names:
        if len(", ".join([*taken, name])) > chars:
            break
        taken.append(name)
    return ", ".join([*taken, "…"] if len(taken) < len(names) else taken)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _score(words: set[str], tool: Tool[Desk]) -> int:
    """How well a tool matches: a word of its name counts most."""
    names = _words(tool.name)
    about = _words(f"{tool.description} {' '.join(tool.input.model_fields)}")
    score = 0
    for word in words:
        if word in names:
            score += 8
        elif any(name.startswith(word) or word.startswith(name) for name in names if len(name) > 2):
            score += 4
        elif word in about:
            score += 1
    return score


def _short(text: str) -> str:
    return text if len(text) <= _ABOUT_CHARS_MAX else f"{text[: _ABOUT_CHARS_MAX - 1]}…"
