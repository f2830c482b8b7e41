"""The programs that can connect to us: where and how each stores its list of MCP servers.

Everything here is pure: it takes the present text of a file and returns the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from bullpen.doors.mcp.install import json_edit, toml_edit
from bullpen.doors.mcp.install.json_edit import Dialect
from bullpen.doors.mcp.install.toml_edit import Unchangeable

ENTRY = "bullpen"
"""The name of our server in every program."""

Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """The command that a program starts."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a file: its new text, and the lines of our entry before and after."""

    text: str
    removed: str
    added: str


@dataclass(frozen=True, slots=True)
class Format:
    """How a program stores its servers. An empty text is an empty file."""

    key: str
    # The module that changes one entry of such a file, and what it is told besides.
    edit: ModuleType
    dialect: tuple[Dialect, ...] = ()
    shape: Literal["typed", "plain", "local"] = "plain"
    empty: str = ""

    def installed(self, text: str, server: ServerEntry) -> Edit:
        """The file with our entry; unchanged if it already has the same entry.

        Raises:
            ValueError: the file cannot be read.
            Unchangeable: our entry cannot be added to it.
        """
        entry, path, text = self._entry(server), (self.key, ENTRY), text or self.empty
        removed = self.edit.written(text, path, *self.dialect)
        if self._lookup(text, path) == entry:
            return Edit(text, removed, removed)
        after = self.edit.put(text, path, entry, *self.dialect)
        self._check(text, after, entry)
        return Edit(after, removed, self.edit.written(after, path, *self.dialect))

    def uninstalled(self, text: str) -> Edit:
        """The file without our entry.

        Raises:
            ValueError, Unchangeable: as for `installed`.
            KeyError: it has no entry of ours.
        """
        path, text = (self.key, ENTRY), text or self.empty
        removed = self.edit.written(text, path, *self.dialect)
        after = self.edit.drop(text, path, *self.dialect)
        self._check(text, after, None)
        return Edit(after, removed, "")

    def _entry(self, server: ServerEntry) -> dict[str, Any]:
        if self.shape == "local":
            entry: dict[str, Any] = {"type": "local", "command": [*server.command]}
            return {**entry, "environment": dict(server.env)} if server.env else entry
        entry = {"type": "stdio"} if self.shape == "typed" else {}
        entry |= {"command": server.command[0], "args": [*server.command[1:]]}
        return {**entry, "env": dict(server.env)} if server.env else entry

    def _lookup(self, text: str, path: tuple[str, ...] = ()) -> Any:
        return self.edit.lookup(text, path, *self.dialect)

    def _check(self, before: str, after: str, entry: object) -> None:
        """Refuse a change that would alter anything but our entry."""
        # The result may not even be a valid file any more.
        with suppress(ValueError):
            ours = self._lookup(after, (self.key, ENTRY))
            if ours == entry and self._rest(after) == self._rest(before):
                return
        raise Unchangeable("other settings in it would change")

    def _rest(self, text: str) -> str:
        """Everything in a file except our entry, in a form that can be compared."""
        whole = self._lookup(text)
        others = {name: value for name, value in whole.get(self.key, {}).items() if name != ENTRY}
        rest = {name: value for name, value in whole.items() if name != self.key}
        # As text, because nan is not equal to itself.
        return repr((rest, others))


@dataclass(frozen=True, slots=True)
class Client:
    """A program: its files, their format, and what a person has to do after the installation."""

    name: str
    title: str
    format: Format
    # Relative to the project and to the user's home. The first that exists is used, else the last.
    project: tuple[str, ...]
    user: tuple[str, ...]
    # The variable that names another folder for the user, and the files below that folder.
    variable: str | None
    moved: tuple[str, ...]
    next: Mapping[Scope, str]

    def files(self, scope: Scope, *, project: Path, env: Mapping[str, str]) -> list[Path]:
        """The files that can hold its servers. `env` names the user's home."""
        if scope == "project":
            return [project / name for name in self.project]
        if self.variable and (folder := env.get(self.variable)):
            return [Path(folder, name) for name in self.moved]
        return [Path(env["HOME"], name) for name in self.user]


def _json(
    key: str, dialect: Dialect, shape: Literal["typed", "plain", "local"] = "plain"
) -> Format:
    return Format(key, json_edit, (dialect,), shape, empty="{}\n")


_APPROVE = "Start {title} in this directory and approve the server when asked."
_TRUST = (
    "{title} reads this file only in a trusted directory: start it here and trust the directory."
)
_NOW = "{title} connects the next time it starts."

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude",
            "Claude Code",
            _json("mcpServers", Dialect(), "typed"),
            project=(".mcp.json",),
            user=(".claude.json",),
            variable="CLAUDE_CONFIG_DIR",
            moved=(".claude.json",),
            next={"user": _NOW, "project": _APPROVE},
        ),
        Client(
            "codex",
            "Codex",
            Format("mcp_servers", toml_edit),
            project=(".codex/config.toml",),
            user=(".codex/config.toml",),
            variable="CODEX_HOME",
            moved=("config.toml",),
            next={"user": _NOW, "project": _TRUST},
        ),
        Client(
            "gemini",
            "Gemini CLI",
            _json("mcpServers", Dialect(comments=True)),
            project=(".gemini/settings.json",),
            user=(".gemini/settings.json",),
            variable="GEMINI_CLI_HOME",
            moved=(".gemini/settings.json",),
            next={"user": _TRUST, "project": _TRUST},
        ),
        Client(
            "opencode",
            "OpenCode",
            _json("mcp", Dialect(comments=True, trailing_commas=True), "local"),
            project=("opencode.jsonc", "opencode.json"),
            user=(".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"),
            variable="XDG_CONFIG_HOME",
            moved=("opencode/opencode.jsonc", "opencode/opencode.json"),
            next={"user": _NOW, "project": _NOW},
        ),
        Client(
            "cursor",
            "Cursor",
            _json("mcpServers", Dialect(comments=True, trailing_commas=True)),
            project=(".cursor/mcp.json",),
            user=(".cursor/mcp.json",),
            variable=None,
            moved=(),
            next={"user": _NOW, "project": _NOW},
        ),
    )
}
"""The programs, by the names that `bullpen mcp install` takes."""
