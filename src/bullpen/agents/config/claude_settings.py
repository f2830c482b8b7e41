"""Claude Code's settings files. Only their permissions and hooks are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.agents.config.settings import RULE_LISTS, SettingsFile, SettingsPlace
from bullpen.agents.config.settings_checks import check_file_rules, meant_rule, read_hooks
from bullpen.agents.permissions.rule_language.package_names import KNOWN_TOOLS
from bullpen.agents.permissions.rule_language.rule import OTHER_TOOLS, rule_of
from bullpen.agents.system.project_files import unreadable
from bullpen.protocol import json_text
from bullpen.protocol.policy import MODES

# Keys of Claude Code's format that need no report.
_SILENT = {"$schema", "permissions", "hooks"}


def read_claudes(path: Path, data: bytes, place: SettingsPlace) -> SettingsFile:
    """A file of Claude Code. Only its permissions and hooks are used."""
    try:
        told = json_text.loads(data) if data.strip() else {}
    except ValueError as error:
        raise unreadable(path, f"it is not JSON ({error})") from None
    if not isinstance(told, dict):
        raise unreadable(path, "it is not an object")
    unused = [f"{path}: {key} is not used by Bullpen." for key in told if key not in _SILENT]
    permissions = dict(_dict(path, "permissions", told.get("permissions")))
    rules = {name: _texts(path, name, permissions.pop(name, None)) for name in RULE_LISTS}
    for name, texts in rules.items():
        rules[name] = [meant_rule(place, text) for text in _usable(path, texts, unused)]
    directories = _texts(
        path, "additionalDirectories", permissions.pop("additionalDirectories", None)
    )
    mode = permissions.pop("defaultMode", None)
    if mode is not None and mode not in MODES:
        unused.append(f"{path}: there is no mode {mode!r}.")
        mode = None
    no_bypass = permissions.pop("disableBypassPermissionsMode", None) == "disable"
    unused += [f"{path}: permissions.{key} is not used by Bullpen." for key in permissions]
    return SettingsFile(
        path,
        place.folder,
        rules,
        [place.directory(each) for each in directories],
        mode,
        hooks=read_hooks(path, _dict(path, "hooks", told.get("hooks")), place),
        forbids_bypass=no_bypass,
        unused=unused,
    )


def _usable(path: Path, texts: list[str], unused: list[str]) -> list[str]:
    """The rules without those about tools that our agents cannot have; these are reported."""
    usable = []
    for text in texts:
        tool = rule_of(text).tool
        known = not tool or tool.startswith("mcp__") or tool in KNOWN_TOOLS
        if not known:
            unused.append(f"{path}: {text} is about a tool that Bullpen's agents do not have.")
        if known or tool in OTHER_TOOLS:
            usable.append(text)
    check_file_rules(path, usable)
    return usable


def _dict(path: Path, what: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise unreadable(path, f"{what} is not an object")
    return value or {}


def _texts(path: Path, name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise unreadable(path, f"permissions.{name} is not a list of texts")
    return value
