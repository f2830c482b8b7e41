"""Permissions and hooks from files: Claude Code's settings, and our own in TOML.

Lists of all files add up. For single values the nearest file wins, and ours before Claude Code's in
the same directory. Settings that Bullpen does not use are reported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.system.project_files import read_limited, up_to_git_root
from bullpen.by_name import load
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, Mode, Policy

OWN_FILE = ".bullpen/settings.toml"
OWN_HOME_FILE = "settings.toml"
CLAUDE_FILES = (".claude/settings.local.json", ".claude/settings.json")


RULE_LISTS = ("allow", "deny", "ask")

# What reads a file of each format. Most projects have files of one, or none.
_OWN = "bullpen.agents.config.own_settings:read_own"
_CLAUDES = "bullpen.agents.config.claude_settings:read_claudes"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings in one file. `folder` is its project, None for the user's own."""

    path: Path
    folder: Path | None
    rules: dict[str, list[str]] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    mode: Mode | None = None
    # Fields of a policy with a single value.
    values: dict[str, Any] = field(default_factory=dict)
    hooks: dict[str, Any] = field(default_factory=dict)
    after_edit: dict[str, list[str]] = field(default_factory=dict)
    # Options of a spec.
    options: dict[str, Any] = field(default_factory=dict)
    forbids_bypass: bool = False
    unused: list[str] = field(default_factory=list)
    # The SHA-256 of the bytes that were read.
    digest: str = ""

    @property
    def as_project_file(self) -> tuple[Path, Path, str]:
        """The file with the folder of its project and the digest of what was read."""
        return self.path, self.folder or self.path.parent, self.digest

    @property
    def matters(self) -> bool:
        """Whether it changes anything for an agent."""
        said = (self.directories, self.mode, self.values, self.hooks, self.after_edit, self.options)
        return self.forbids_bypass or any((*said, *self.rules.values()))


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings of all files, the nearest first."""

    files: tuple[SettingsFile, ...] = ()

    @property
    def of_project(self) -> list[tuple[Path, Path, str]]:
        """The files that need trust, each with its folder and the digest of what was read."""
        return [
            each.as_project_file for each in self.files if each.folder is not None and each.matters
        ]

    @property
    def mode(self) -> Mode | None:
        """The mode of agents that ask for none."""
        return next((each.mode for each in self.files if each.mode is not None), None)

    @property
    def hooks(self) -> dict[str, Any]:
        """All hooks, in the form in which they are stored with an agent."""
        joined: dict[str, Any] = {}
        for each in self.files:
            joined = joined_hooks(joined, each.hooks)
        return joined

    def after_edit(self, stated: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """The commands to run after an edit, of all files, the nearest last, then those stated."""
        joined: dict[str, list[str]] = {}
        for each in (*(file.after_edit for file in reversed(self.files)), stated):
            for pattern, commands in each.items():
                kept = joined.setdefault(pattern, [])
                kept += [command for command in commands if command not in kept]
        return joined

    @property
    def unused(self) -> list[str]:
        """What the files say that Bullpen does not use, one sentence each."""
        of_files = [line for each in self.files for line in each.unused]
        return [*of_files, *HookSet.of(self.hooks).unused]

    def applied(self, spec: AgentSpec, *, stated: Iterable[str], child: bool) -> AgentSpec:
        """The spec with the settings of the files where it does not set its own.

        `stated` are the fields of its policy that were asked for. A child of another agent gets
        rights only from its parent; files can only forbid more. Raises Refused: mode_disabled.
        """
        mode = spec.mode if child else spec.mode or self.mode or DEFAULT_MODE
        self.refuse_mode(mode)
        policy = self._policy(spec.policy, frozenset(stated), child=child)
        hooks = joined_hooks(spec.hooks or {}, self.hooks)
        after = self.after_edit(spec.after_edit or {}) or None
        options = dict(spec.options)
        for each in () if child else self.files:
            options = {**each.options, **options}
        return spec.evolve(
            mode=mode,
            policy=policy.raw,
            hooks=hooks or None,
            after_edit=after,
            options=options,
        )

    def refuse_mode(self, mode: str | None) -> None:
        """Refuse a mode that a file forbids. Raises Refused: mode_disabled."""
        forbids = next((each.path for each in self.files if each.forbids_bypass), None)
        if mode == "bypassPermissions" and forbids is not None:
            raise Refused(
                f"{forbids} disables the mode bypassPermissions.",
                reason="mode_disabled",
                remedy="Choose another mode with --mode.",
            )

    def _policy(self, own: Policy, stated: frozenset[str], *, child: bool) -> Policy:
        made: dict[str, Any] = {}
        sources = dict(own.sources)
        for name in ("deny", "ask") if child else RULE_LISTS:
            made[name] = list(getattr(own, name))
            for each in self.files:
                fresh = [rule for rule in each.rules.get(name, ()) if rule not in made[name]]
                made[name] += fresh
                sources |= dict.fromkeys(fresh, str(each.path))
        if not child:
            found = [path for each in self.files for path in each.directories]
            made["directories"] = list(dict.fromkeys([*own.directories, *found]))
            for each in reversed(self.files):
                made |= {k: v for k, v in each.values.items() if k not in stated}
        return own.evolve(**made, sources=sources)


def read_settings(cwd: Path, *, user_home: Path, home: Path, project: bool = True) -> FileSettings:
    """The settings for work in this directory; without `project`, only the user's own.

    Raises Unreadable, or Invalid for a broken rule or an unknown field in our own file.
    """
    above = up_to_git_root(cwd)
    users = {
        **{users_file_of(home, each).resolve(): _OWN for each in above},
        (home / OWN_HOME_FILE).resolve(): _OWN,
        (user_home / CLAUDE_FILES[1]).resolve(): _CLAUDES,
    }
    found: list[SettingsFile] = []
    for folder in above if project else []:
        for name in (OWN_FILE, *CLAUDE_FILES):
            path = folder / name
            if path.resolve() not in users:
                read = _OWN if name == OWN_FILE else _CLAUDES
                found += _read(path, read, SettingsPlace(cwd.resolve(), user_home, folder, folder))
    for path, read in users.items():
        found += _read(path, read, SettingsPlace(cwd.resolve(), user_home, above[-1], None))
    return FileSettings(tuple(found))


def users_file_of(home: Path, project: Path) -> Path:
    """The user's own settings for one directory. They are not in it, so nobody else has them."""
    real = str(project.resolve())
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return home / "projects" / f"{digest}.toml"


def joined_hooks(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The hooks of both; the first breaker wins."""
    joined = dict(first)
    for event, rows in second.items():
        if event == "breaker":
            joined.setdefault(event, rows)
        else:
            known = joined.get(event, [])
            joined[event] = [*known, *(row for row in rows if row not in known)]
    return joined


def with_source(
    hooks: dict[str, Any], path: Path, project: Path, *, role: str | None = None
) -> dict[str, Any]:
    """Hooks as they are stored: each group with its file, its project, and its role if any."""
    marks = {"source": str(path), "project": str(project)}
    if role is not None:
        marks["role"] = role
    return {
        event: rows if event == "breaker" else [{**row, **marks} for row in rows]
        for event, rows in hooks.items()
    }


def hooks_for_children(hooks: dict[str, Any] | None) -> dict[str, Any]:
    """An agent's hooks as those that it spawns have them too, so that they cannot do more.

    `Stop` in a role is about the end of that agent's own turns.
    """
    passed_on: dict[str, Any] = {}
    for event, rows in (hooks or {}).items():
        kept = rows if event != "Stop" else [row for row in rows if "role" not in row]
        if kept:
            passed_on[event] = kept
    return passed_on


@dataclass(frozen=True, slots=True)
class SettingsPlace:
    """Where a file applies: the agent's directory, the project, and whose file it is."""

    cwd: Path
    user_home: Path
    project: Path
    folder: Path | None

    def directory(self, path: str) -> str:
        """The absolute path of a directory that a file names."""
        if path == "~" or path.startswith("~/"):
            return str((self.user_home / path[2:]).resolve())
        return str((self.project / path).resolve())


def _read(path: Path, reader: str, place: SettingsPlace) -> list[SettingsFile]:
    data = read_limited(path)
    if data is None:
        return []
    found: SettingsFile = load(reader)(path, data.removeprefix(b"\xef\xbb\xbf"), place)
    return [replace(found, digest=hashlib.sha256(data).hexdigest())]
