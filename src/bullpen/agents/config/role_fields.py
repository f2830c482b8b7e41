"""Fields of a role: the tools that it lists, its skills, its memory and its isolation."""

from __future__ import annotations

import re
from typing import Any

from bullpen.agents.permissions.rule_language.known_tools import unknown_tools
from bullpen.agents.permissions.rule_language.package_names import KNOWN_TOOLS, all_named
from bullpen.agents.permissions.rule_language.redundant import covered_by
from bullpen.agents.permissions.rule_language.rule import OTHER_TOOLS, rule_of
from bullpen.agents.permissions.rule_language.tool_names import TEAM_TOOLS, TOOL_NAMES
from bullpen.agents.tools.agent_memory import MEMORY, SCOPES
from bullpen.protocol.agent import AgentSpec

_OF_LEADING = {"SpawnTeammate", "Task", "StopTeammate", "SetMode", "TeamCreate", "TeamDelete"}
COORDINATION = tuple(name for name in TEAM_TOOLS if name not in _OF_LEADING)
"""The tools that every member has, whatever its role lists, as in Claude Code."""

_SEVERAL = re.compile(r"(?P<tool>\w+)\((?P<parts>.*:\*,.*)\)", re.DOTALL)
# Tools of Claude Code that our agents do not have, so forbidding one needs no action.
_NOT_HERE = (OTHER_TOOLS | {"LSP"}) - set(TOOL_NAMES)


class FieldRefused(Exception):
    """A field of a role that cannot be applied, with the reasons."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


def tools(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Only these tools. Those that the agent will not have stay listed; the spawn names them."""
    every = all_named(_names(value))
    if every is None:
        return {}
    names = every
    missing = unknown_tools(names, spec.driver)
    _refuse([why for name in names if name not in missing and (why := _broken(name)) is not None])
    if names and len(missing) == len(names):
        raise FieldRefused(f"an agent here has none of these: {', '.join(missing)}")
    names = list(dict.fromkeys([*names, *COORDINATION]))
    if spec.tools is None:
        return {"tools": names}
    both = [name for name in names if covered_by(name, spec.tools, alike=False)]
    both += [name for name in spec.tools if covered_by(name, names, alike=False)]
    return {"tools": list(dict.fromkeys(both))}


def disallowed(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Whole tools are removed; for parts of tools and for servers, calls are denied."""
    names = [name for name in _names(value) if name not in _NOT_HERE]
    _refuse([why for name in names if (why := _cannot_deny(name)) is not None])
    whole = [name for name in names if name in KNOWN_TOOLS]
    parts = [name for name in names if name not in whole]
    taken = list(dict.fromkeys([*(spec.disallowed_tools or []), *whole]))
    return {"disallowed_tools": taken or None, "deny": parts}


def skills(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Check the skills that a role lists; `resolve` adds their texts to the instructions."""
    skill_names(value)
    return {}


def skill_names(value: Any) -> list[str]:
    """The names of the skills in a role's field."""
    return list(dict.fromkeys(_names(value or [])))


def memory(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Where the notes of its agents are kept."""
    if value in ("", False):
        return {}
    if value not in SCOPES:
        raise FieldRefused(f"there is no scope {value!r}; known are {', '.join(SCOPES)}")
    return {"options": {MEMORY: value}}


def isolation(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Check the workspace that a role wants; `resolve` plans it."""
    if value not in ("", False, "worktree"):
        raise FieldRefused(f"there is no isolation {value!r}; known is worktree")
    return {}


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise FieldRefused(*dict.fromkeys(reasons))


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        # Commas inside a rule such as Bash(git log:*, git diff:*) do not separate tools.
        value = re.split(r",\s*(?![^()]*\))", value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise FieldRefused("it is not a list of names")
    return [part for name in value if name.strip() for part in _parts(name.strip())]


def _parts(name: str) -> list[str]:
    """`Bash(git log:*, git diff)` means two parts of a tool."""
    several = _SEVERAL.fullmatch(name)
    if several is None:
        return [name]
    parts = re.split(r"(?<=:\*)\s*,\s*", several["parts"])
    return [f"{several['tool']}({part.strip()})" for part in parts]


def _cannot_deny(name: str) -> str | None:
    tool = rule_of(name).tool
    # A misspelled name would leave the agent the tool that was meant.
    known = tool in _NOT_HERE or tool.startswith("mcp__") or tool in KNOWN_TOOLS
    return _broken(name) if known else f"there is no tool {name!r} here"


def _broken(name: str) -> str | None:
    rule = rule_of(name)
    return None if rule.broken is None else f"{name}: {rule.broken}"
