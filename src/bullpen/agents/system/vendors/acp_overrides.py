"""The settings that Bullpen forces on each program, so that it asks before it does something.

Every override was measured on the version in the program's preset: with it, settings of the user
and of the repository no longer let calls pass. `bullpen.testing.gate_contract` checks this.
"""

from __future__ import annotations

import json
from typing import Any

CODEX_CONFIG = json.dumps(
    {
        # The model provider searches by itself, and nobody is asked.
        "web_search": "disabled",
        "features": {
            # It would go on without a turn.
            "goals": False,
            "memories": False,
            "daemon_auto_start": False,
            # Agents of its own, whose calls and usage are not reported.
            "multi_agent": False,
            # A model would answer instead of the gate.
            "guardian_approval": False,
            # Commands from settings files.
            "hooks": False,
            # Tools on a remote server, and on the desktop.
            "apps": False,
            "browser_use": False,
            "computer_use": False,
        },
    }
)
"""Codex: the variable CODEX_CONFIG of its adapter, which overrides every `config.toml`."""

_CLAUDE_TOOLS_OFF = (
    # They act without a turn.
    *("CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "Monitor", "Workflow"),
    # The runner decides about its directory and its mode.
    *("EnterWorktree", "ExitWorktree", "EnterPlanMode"),
    # Mail and agents past the team.
    *("SendMessage", "ListAgents", "Agent", "Task", "TeamCreate", "TeamDelete"),
)

CLAUDE_META: dict[str, Any] = {
    "claudeCode": {
        "options": {
            # No settings file counts: hooks and allow rules of the user would bypass the gate, too.
            "settingSources": [],
            "strictMcpConfig": True,
            "disallowedTools": list(_CLAUDE_TOOLS_OFF),
            # Otherwise it does not ask before commands that only read.
            "settings": {
                "permissions": {
                    "ask": [
                        *("Bash", "Edit", "Write", "NotebookEdit"),
                        *("WebFetch", "WebSearch", "Skill"),
                    ]
                }
            },
        }
    }
}
"""Claude: options of its SDK, sent with every conversation that is opened or resumed."""

_OPENCODE_ASK = {
    "edit": "ask",
    "bash": "ask",
    "webfetch": "ask",
    "websearch": "ask",
    "codesearch": "ask",
    "skill": "ask",
    "external_directory": "ask",
    # A sub-agent's questions reach nobody, and the turn never ends.
    "task": "deny",
}

OPENCODE_CONFIG = json.dumps(
    {
        "default_agent": "build",
        "share": "disabled",
        "permission": _OPENCODE_ASK,
        "agent": {
            name: {"permission": _OPENCODE_ASK} for name in ("build", "plan", "general", "explore")
        },
    }
)
"""OpenCode: the variable OPENCODE_CONFIG_CONTENT, which overrides every `opencode.json`."""

_GEMINI_UNASKED = (
    *("read_file", "read_many_files", "list_directory", "glob", "grep_search"),
    *("search_file_content", "update_topic", "write_todos", "get_internal_docs"),
)

GEMINI_POLICY = f"""\
[[rule]]
toolName = "*"
decision = "ask_user"
priority = 900

[[rule]]
toolName = {json.dumps(list(_GEMINI_UNASKED))}
decision = "allow"
priority = 950
"""
"""Gemini: its policy of the highest tier. Tools that it does not know yet are asked about, too."""

GEMINI_SETTINGS = json.dumps({"hooksConfig": {"enabled": False}})
"""Gemini: system settings, which override those of the user and the repository."""

QWEN_SETTINGS = json.dumps(
    {
        "permissions": {
            "ask": ["Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch", "Skill"]
        },
        "disableAllHooks": True,
    }
)
"""Qwen: system settings, which are added to those of the user and the repository."""
