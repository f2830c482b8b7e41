"""The names and kinds of the tools, for whoever reads rules and settings and calls none of them."""

from __future__ import annotations

from collections.abc import Sequence

from bullpen.team.requests.mode_rules import Kind

TOOL_KINDS: dict[str, Kind] = {
    "Read": "read", "Write": "write", "Edit": "write", "MultiEdit": "write",
    "apply_patch": "write", "NotebookEdit": "write", "Glob": "read", "Grep": "read",
    "Bash": "run", "BashOutput": "read", "KillShell": "read", "Skill": "read",
    "WebFetch": "read", "WebSearch": "read", "TaskCreate": "team", "TaskGet": "team",
    "TaskList": "team", "TaskUpdate": "team", "NotesRead": "team", "NotesWrite": "team",
    "Promise": "team", "SendMessage": "team", "TeamStatus": "team", "ScheduleWakeup": "team",
    "SpawnTeammate": "team", "Task": "team", "StopTeammate": "team", "Finish": "team",
    "TeamCreate": "team", "TeamDelete": "team", "SetMode": "team",
    "EnterPlanMode": "team", "ExitPlanMode": "team", "ToolSearch": "team", "TodoWrite": "team",
    "AskUserQuestion": "team",
}  # fmt: skip
"""The tools and what kind each is, in the order in which models see them."""

TOOL_NAMES = tuple(TOOL_KINDS)
"""The tools that rules can be about."""

TEAM_TOOLS = tuple(name for name, kind in TOOL_KINDS.items() if kind == "team")


def missing_tools_note(names: Sequence[str]) -> str:
    """What people and models are told of tools that an agent does not have."""
    return f"It does not have these tools of its role: {', '.join(names)}."
