"""What a program's own settings let it do without asking: there our gate would not be asked.

Where each program keeps this was observed on the version that its preset names. It is read only to
refuse such a start; what cannot be read is left to the program, which says so itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

# Reading is not asked for anyway, and the team's tools are judged where they arrive.
_HARMLESS = ("Read", "Glob", "Grep", "LS", "mcp__bullpen", "read_file", "list_directory", "glob")


def unasked(program: str, env: Mapping[str, str]) -> list[str]:
    """What the settings of a program's user allow, each with the file that says so."""
    home = Path(env.get("HOME") or "/")
    match program:
        case "claude":
            path = Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude", "settings.json")
            allowed = _listed(_json(path), "permissions", "allow")
        case "gemini":
            path = home / ".gemini" / "settings.json"
            allowed = _listed(_json(path), "tools", "allowed")
        case "qwen":
            path = home / ".qwen" / "settings.json"
            told = _json(path)
            allowed = [*_listed(told, "permissions", "allow"), *_listed(told, "tools", "allowed")]
        case "goose":
            config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
            path = config / "goose" / "permission.yaml"
            sections = _yaml(path)
            allowed = [
                name for section in sections for name in _listed(sections, section, "always_allow")
            ]
        case _:
            return []
    return [f"{each} ({path})" for each in allowed if not each.startswith(_HARMLESS)]


def _listed(table: Mapping[str, Any], section: str, name: str) -> list[str]:
    inner = table.get(section)
    rows = inner.get(name) if isinstance(inner, dict) else None
    return [row for row in rows if isinstance(row, str)] if isinstance(rows, list) else []


def _json(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        told = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return told if isinstance(told, dict) else {}
