"""What Claude Code's tools are to us, and the answers that its hooks understand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.serve import SERVER_NAME
from bullpen.team.policy_rules import Kind

TEAM_TOOLS = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "SendMessage")
"""Tools that the program has under the same names as we do: what they do is done by ours."""

NOT_OFFERED = ("SendMessage", "EnterPlanMode", "ExitPlanMode")
"""Tools of the team that the program has itself, or could not leave again: plan mode."""

DISALLOWED = (
    # Its own teams, and helpers whose use nobody could count.
    "Agent",
    "Task",
    "TeamCreate",
    "TeamDelete",
    "Workflow",
    # Nobody sits in front of it.
    "AskUserQuestion",
    "EnterPlanMode",
    # The runner gives it its turns and its directory.
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "EnterWorktree",
    "ExitWorktree",
)
"""Tools of the program that it does not get."""

_KINDS: Mapping[str, Kind] = {
    "Read": "read",
    "Glob": "read",
    "Grep": "read",
    "LS": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "write",
    "MultiEdit": "write",
    "NotebookEdit": "write",
    # They act on what runs already, or on the program itself.
    "TaskOutput": "team",
    "TaskStop": "team",
    "BashOutput": "team",
    "KillShell": "team",
    "TodoWrite": "team",
    "ToolSearch": "team",
    "ListAgents": "team",
    "ReportFindings": "team",
    "ExitPlanMode": "team",
    "Skill": "team",
}
"""What each of its tools can change. One that is not known could do anything."""


def kind_of(tool: str) -> Kind:
    """What a tool of the program can change."""
    return _KINDS.get(tool, "run")


def is_ours(tool: str) -> bool:
    """Whether it is one of the team's tools, which are asked for where they are called."""
    return tool.startswith(f"mcp__{SERVER_NAME}__")


def understood(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of an input for the program's own tool, the fields that ours has too."""
    names = {field.alias or name for name, field in tool.input.model_fields.items()}
    if tool.name == "SendMessage" and given.get("message") is not None:
        # Newer versions show their hooks the older form beside it.
        names = {"to", "summary", "message"}
    return {key: value for key, value in given.items() if key in names and value is not None}


def allow(tool_input: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the call, with another input if one is given."""
    changed = {} if tool_input is None else {"updatedInput": dict(tool_input)}
    return _decided("allow", "Bullpen allows it.", **changed)


def deny(why: str) -> dict[str, Any]:
    """Do not make the call; the model is told why and goes on."""
    return _decided("deny", why)


def tell(text: str) -> dict[str, Any]:
    """Give the model something beside the result of its call; nothing, if it is empty."""
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": text}}


def _decided(decision: str, why: str, **more: Any) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": why,
            **more,
        }
    }
