"""Permissions and hooks from files: Claude Code's settings, and our own in TOML.

Lists of all files add up. For single values the nearest file wins, and ours before Claude Code's in
the same directory. Settings that Bullpen does not use are reported.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bullpen.agents.hooks.commands import HookSet, own_hooks
from bullpen.agents.permissions.rule_language.redundant import rebased
from bullpen.agents.permissions.rule_language.rule import OTHER_TOOLS, check_rules, rule_of
from bullpen.agents.system.project_files import read_limited, unreadable, up_to_git_root
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.agents.tools.web.search import SEARCH_URL, check_search_url
from bullpen.errors import Invalid, Refused
from bullpen.protocol import json_text
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Mode, Policy, Sandbox
from bullpen.sandbox.network.host_rules import host_rule

OWN_FILE = ".bullpen/settings.toml"
OWN_HOME_FILE = "settings.toml"
CLAUDE_FILES = (".claude/settings.local.json", ".claude/settings.json")

KNOWN_TOOLS = tuple(tool.name for tool in TOOLS)
"""The tools that rules can be about."""

_LISTS = ("allow", "deny", "ask")
# Keys of Claude Code's format that need no report.
_SILENT = {"$schema", "permissions", "hooks"}


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

    @property
    def after_edit(self) -> dict[str, list[str]]:
        """The commands to run after an edit, of all files, the nearest last."""
        joined: dict[str, list[str]] = {}
        for each in reversed(self.files):
            for pattern, commands in each.after_edit.items():
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
        after = self.after_edit or None
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
        for name in ("deny", "ask") if child else _LISTS:
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
    root = up_to_git_root(cwd)[-1]
    users = {
        (home / OWN_HOME_FILE).resolve(): _own,
        (user_home / CLAUDE_FILES[1]).resolve(): _claudes,
    }
    found: list[SettingsFile] = []
    for folder in up_to_git_root(cwd) if project else []:
        for name in (OWN_FILE, *CLAUDE_FILES):
            path = folder / name
            if path.resolve() not in users:
                read = _own if name == OWN_FILE else _claudes
                found += _read(path, read, _Place(cwd.resolve(), user_home, folder, folder))
    for path, read in users.items():
        found += _read(path, read, _Place(cwd.resolve(), user_home, root, None))
    return FileSettings(tuple(found))


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
class _Place:
    """Where a file applies: the agent's directory, the project, and whose file it is."""

    cwd: Path
    user_home: Path
    project: Path
    folder: Path | None

    def meant(self, rule: str) -> str:
        """A rule relative to the project root, rewritten for an agent in a subdirectory."""
        specifier = rule_of(rule).specifier or ""
        from_root = specifier.startswith("/") and not specifier.startswith("//")
        if from_root and self.folder is not None and self.folder != self.cwd:
            return rebased(rule, str(self.folder))
        return rule

    def directory(self, path: str) -> str:
        """The absolute path of a directory that a file names."""
        if path == "~" or path.startswith("~/"):
            return str((self.user_home / path[2:]).resolve())
        return str((self.project / path).resolve())


Reader = Callable[[Path, bytes, _Place], SettingsFile]


def _read(path: Path, read: Reader, place: _Place) -> list[SettingsFile]:
    data = read_limited(path)
    if data is None:
        return []
    found = read(path, data.removeprefix(b"\xef\xbb\xbf"), place)
    return [replace(found, digest=hashlib.sha256(data).hexdigest())]


def _claudes(path: Path, data: bytes, place: _Place) -> SettingsFile:
    """A file of Claude Code. Only its permissions and hooks are used."""
    try:
        told = json_text.loads(data) if data.strip() else {}
    except ValueError as error:
        raise unreadable(path, f"it is not JSON ({error})") from None
    if not isinstance(told, dict):
        raise unreadable(path, "it is not an object")
    unused = [f"{path}: {key} is not used by Bullpen." for key in told if key not in _SILENT]
    permissions = dict(_dict(path, "permissions", told.get("permissions")))
    rules = {name: _texts(path, name, permissions.pop(name, None)) for name in _LISTS}
    for name, texts in rules.items():
        rules[name] = [place.meant(text) for text in _usable(path, texts, unused)]
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
        hooks=_hooks(path, _dict(path, "hooks", told.get("hooks")), place),
        forbids_bypass=no_bypass,
        unused=unused,
    )


def _usable(path: Path, texts: list[str], unused: list[str]) -> list[str]:
    """The rules without those about tools that our agents cannot have; these are reported."""
    usable = []
    for text in texts:
        tool = rule_of(text).tool
        known = tool in KNOWN_TOOLS or tool.startswith("mcp__") or not tool
        if not known:
            unused.append(f"{path}: {text} is about a tool that Bullpen's agents do not have.")
        if known or tool in OTHER_TOOLS:
            usable.append(text)
    _check(path, usable)
    return usable


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Permissions(_Table):
    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)
    mode: Mode | None = None
    approver: Literal["human", "lead", "policy"] | None = None
    deadline_s: float | None = Field(None, gt=0)


class _Answers(_Table):
    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)


class _Plans(_Table):
    approver: Literal["human", "lead", "rule", "auto"] | None = None
    rule: str | None = None
    after: Mode | None = None


class _Sandbox(_Table):
    network: bool = False
    hosts: list[str] = Field(default_factory=list)
    read: list[str] = Field(default_factory=list)
    write: list[str] = Field(default_factory=list)


class _Web(_Table):
    search_url: str | None = None


class _Own(_Table):
    permissions: _Permissions = Field(default_factory=_Permissions)
    answers: _Answers | None = None
    plans: _Plans = Field(default_factory=_Plans)
    sandbox: _Sandbox | None = None
    web: _Web = Field(default_factory=_Web)
    hooks: dict[str, Any] = Field(default_factory=dict)
    after_edit: dict[str, list[str]] = Field(default_factory=dict)


def _own(path: Path, data: bytes, place: _Place) -> SettingsFile:
    """A file of ours. An unknown field is an error."""
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise unreadable(path, f"it is not TOML ({error})") from None
    try:
        told = _Own.model_validate(raw)
    except ValidationError as error:
        raise _unknown(path, error) from None
    permissions, answers = told.permissions, told.answers or _Answers()
    rules = {name: list(getattr(permissions, name)) for name in _LISTS}
    _check(path, [text for texts in rules.values() for text in texts])
    _check(path, [*answers.allow, *answers.deny])
    return SettingsFile(
        path,
        place.folder,
        {name: [place.meant(text) for text in texts] for name, texts in rules.items()},
        [place.directory(each) for each in permissions.directories],
        permissions.mode,
        values=_values(path, told, place),
        hooks=_hooks(path, told.hooks, place, own_hooks),
        after_edit=told.after_edit,
        options=_options(path, told.web),
    )


def _options(path: Path, web: _Web) -> dict[str, Any]:
    if web.search_url is None:
        return {}
    with _naming(path):
        check_search_url(web.search_url)
    return {SEARCH_URL: web.search_url}


def _values(path: Path, told: _Own, place: _Place) -> dict[str, Any]:
    permissions, answers, plans, sandbox = told.permissions, told.answers, told.plans, told.sandbox
    closed = None
    if sandbox is not None:
        for host in sandbox.hosts:
            host_rule(host)
        closed = Sandbox.new(
            network=sandbox.network,
            hosts=sandbox.hosts,
            read=[place.directory(each) for each in sandbox.read],
            write=[place.directory(each) for each in sandbox.write],
        ).raw
    said = {
        "approver": permissions.approver or ("policy" if answers is not None else None),
        "deadline_s": permissions.deadline_s,
        "answers": None if answers is None else str(path),
        "plan_approver": plans.approver or ("rule" if plans.rule else None),
        "plan_rule": plans.rule,
        "after_plan": plans.after,
        "sandbox": closed,
    }
    return {name: value for name, value in said.items() if value is not None}


def _hooks(
    path: Path,
    hooks: dict[str, Any],
    place: _Place,
    read: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    with _naming(path):
        made = read(hooks)
        HookSet.of(made)
    return with_source(made, path, place.project)


def _check(path: Path, rules: Iterable[str]) -> None:
    with _naming(path):
        check_rules(rules, KNOWN_TOOLS)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file to an error about its content."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path}: {error.message}", remedy=error.remedy) from None


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


def _unknown(path: Path, error: ValidationError) -> Invalid:
    rows = []
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in found["loc"])
        unknown = found["type"] == "extra_forbidden"
        rows.append(f"{where} is unknown" if unknown else f"{where}: {found['msg']}")
    return Invalid(f"{path} is invalid: {'; '.join(rows)}.", remedy="Fix the file or remove it.")
