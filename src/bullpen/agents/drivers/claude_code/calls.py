"""Classify Claude Code's tools, and build the answers to its hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME
from bullpen.agents.permissions.rule_language.rule import READ_TOOLS, WRITE_TOOLS
from bullpen.team.requests.mode_rules import Kind

TEAM_TOOLS = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "SendMessage")
"""Tools that have the same name in the program and in Bullpen. Ours do the work."""

NOT_OFFERED = ("SendMessage", "EnterPlanMode", "ExitPlanMode")
"""Team tools that are not offered: the program has them, or could not leave plan mode."""

DISALLOWED = (
    # Its own teams, and subagents whose usage cannot be counted.
    *("Agent", "Task", "TeamCreate", "TeamDelete", "Workflow"),
    # There is no user at its terminal.
    *("AskUserQuestion", "EnterPlanMode", "SendUserMessage", "SendUserFile", "PushNotification"),
    *("OfferChromeSetup", "ShareOnboardingGuide", "ShowOnboardingRolePicker", "SendFeedback"),
    # The runner decides its turns and its directory.
    *("CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "EnterWorktree", "ExitWorktree"),
    *("Monitor", "ProposeGoal", "RemoteTrigger", "EndConversation", "SubagentHandback"),
    # Mail of its own, past the team's.
    *("ListAgents", "ListPeers", "ReadNotifications"),
)
"""Tools of the program that are disabled."""

ENVIRONMENT = {
    "TERM": "xterm-256color",
    "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
    # Otherwise the team tools are hidden behind a search.
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
    "DISABLE_AUTOUPDATER": "1",
    # Both would start turns of their own. Instead, a command may take as long as a turn.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "BASH_MAX_TIMEOUT_MS": "3600000",
}
"""Variables of the program: what it needs, and what it must not do by itself."""

_OWN = frozenset(
    """
    BashOutput ExitPlanMode KillShell ReportFindings Skill TaskOutput TaskStop TodoWrite
    ToolSearch
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Tools that act on running commands, or on the program itself."""


def kind_of(tool: str) -> Kind:
    """The kind of a tool of the program. An unknown tool could do anything."""
    if tool in READ_TOOLS:
        return "read"
    if tool in WRITE_TOOLS:
        return "write"
    return "team" if tool in _OWN else "run"


def is_ours(tool: str) -> bool:
    """Whether it is a team tool; our server decides about those."""
    return tool.startswith(f"mcp__{SERVER_NAME}__")


def understood(tool: Tool[Desk], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tool input that our tool of the same name also has."""
    names = {field.alias or name for name, field in tool.input.model_fields.items()}
    if tool.name == "SendMessage" and given.get("message") is not None:
        # Newer versions also send the older form to hooks.
        names = {"to", "summary", "message"}
    return {key: value for key, value in given.items() if key in names and value is not None}


def allow(tool_input: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Allow the call, with another input if one is given."""
    changed = {} if tool_input is None else {"updatedInput": dict(tool_input)}
    return _decided("allow", "Allowed by Bullpen.", **changed)


def deny(why: str) -> dict[str, Any]:
    """Deny the call; the model is told why and continues."""
    return _decided("deny", why)


def tell(text: str) -> dict[str, Any]:
    """Add a text to the result of a call; nothing if it is empty."""
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
