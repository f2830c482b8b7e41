"""Find what a program's own settings allow without asking, because that would bypass the gate.

The location of each program's settings was observed on the version in its preset. They are read
only to refuse such a start. An unreadable file is left to the program, which reports it itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

# The server of the team's tools decides about its calls.
_OF_TEAM = ("bullpen__", "mcp__bullpen")
_ASKING = re.compile(r"""^prefix_rule\s*\(.*\bdecision\s*=\s*["'](prompt|forbidden)["']""")


def unasked(program: str, env: Mapping[str, str]) -> list[str]:
    """What the user's settings of a program allow, each with its file."""
    home = Path(env.get("HOME") or "/")
    match program:
        case "codex":
            rules = Path(env.get("CODEX_HOME") or home / ".codex", "rules")
            return [
                f"{each} ({path})"
                for path in sorted(rules.rglob("*.rules"))
                for each in codex_allows(_text(path))
            ]
        case "copilot":
            place = Path(env.get("COPILOT_HOME") or home / ".copilot")
            hooks = [path for path in sorted(place.glob("hooks/**/*")) if path.is_file()]
            inline = [place / name for name in ("settings.json", "config.json")]
            hooks += [path for path in inline if _table(path).get("hooks")]
            return [f"a hook ({path})" for path in hooks]
        case "goose":
            config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
            path = config / "goose" / "permission.yaml"
            sections = _table(path, yaml.safe_load)
            return [
                f"{name} ({path})"
                for section in sections
                for name in _listed(sections, section, "always_allow")
                if not name.startswith(_OF_TEAM)
            ]
    # The settings that a preset forces on the others leave nothing of the user's own.
    return []


def codex_allows(text: str) -> list[str]:
    """The rules of a `.rules` file of Codex that let commands run without asking.

    A rule allows unless it says otherwise. A file with anything else than rules counts as allowing.
    """
    plain = "\n".join(line.partition("#")[0] for line in text.splitlines()).strip()
    found = [_one_line(part) for part in re.split(r"(?=\b[a-z_]+\s*\()", plain) if part.strip()]
    return [part for part in found if not _ASKING.search(part)]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _listed(table: Mapping[str, Any], section: str, name: str) -> list[str]:
    inner = table.get(section)
    rows = inner.get(name) if isinstance(inner, dict) else None
    return [row for row in rows if isinstance(row, str)] if isinstance(rows, list) else []


def _table(path: Path, parse: Callable[[str], Any] = json.loads) -> Mapping[str, Any]:
    try:
        told = parse(_text(path))
    except (ValueError, yaml.YAMLError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""
