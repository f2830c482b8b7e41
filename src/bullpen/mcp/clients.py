"""The programs that can connect to us: where each keeps its MCP servers, and how it writes them.

Everything here is pure: what a file says now goes in, what it is to say comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bullpen.mcp import json_edit, toml_edit
from bullpen.mcp.json_edit import Dialect

ENTRY = "bullpen"
"""What our server is called in every program."""

Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class Server:
    """What a program is to start."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class Unchangeable(Exception):
    """A file that can be read, but not changed without changing what else it says."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of a file: its new text, and the lines of our entry before and after."""

    text: str
    removed: str
    added: str


class Format(Protocol):
    """How a program writes its servers. An empty text is a file that says nothing yet."""

    def installed(self, text: str, server: Server) -> Edit:
        """The file with our entry. If it says the same already, its text is unchanged.

        Raises:
            ValueError: the file cannot be read.
            Unchangeable: our entry cannot be put into it.
        """

    def uninstalled(self, text: str) -> Edit:
        """The file without our entry.

        Raises:
            ValueError: the file cannot be read.
            Unchangeable: our entry cannot be taken out of it.
            KeyError: it has none.
        """


@dataclass(frozen=True, slots=True)
class Client:
    """A program: where its files are, how they are written, and what a person does next."""

    name: str
    title: str
    format: Format
    # Below the folder of the project, and below that of the user. Of several, the first that
    # exists is meant, else the last.
    project: tuple[str, ...]
    user: tuple[str, ...]
    # The variable that names another folder for the user, and where the files are in that one.
    variable: str | None
    moved: tuple[str, ...]
    next: Mapping[Scope, str]

    def files(self, scope: Scope, *, project: Path, env: Mapping[str, str]) -> list[Path]:
        """The files in which its servers can be. `env` names the home of the user."""
        if scope == "project":
            return [project / name for name in self.project]
        if self.variable and (folder := env.get(self.variable)):
            return [Path(folder, name) for name in self.moved]
        return [Path(env["HOME"], name) for name in self.user]


@dataclass(frozen=True, slots=True)
class JsonServers:
    """Servers as an object in a JSON file."""

    key: str
    dialect: Dialect
    shape: Literal["typed", "plain", "local"]

    def installed(self, text: str, server: Server) -> Edit:
        """As `Format` says."""
        entry, path = self._entry(server), (self.key, ENTRY)
        text = text or "{}\n"
        removed = json_edit.written(text, path, self.dialect)
        if removed and json_edit.lookup(text, path, self.dialect) == entry:
            return Edit(text, removed, removed)
        after = json_edit.put(text, path, entry, self.dialect)
        _check(lambda: json_edit.lookup(after, path, self.dialect) == entry)
        _check(lambda: self._rest(after) == self._rest(text))
        return Edit(after, removed, json_edit.written(after, path, self.dialect))

    def uninstalled(self, text: str) -> Edit:
        """As `Format` says."""
        text, path = text or "{}\n", (self.key, ENTRY)
        removed = json_edit.written(text, path, self.dialect)
        after = json_edit.drop(text, path, self.dialect)
        _check(lambda: not json_edit.written(after, path, self.dialect))
        _check(lambda: self._rest(after) == self._rest(text))
        return Edit(after, removed, "")

    def _rest(self, text: str) -> str:
        return _rest(json_edit.load(text, self.dialect), self.key)

    def _entry(self, server: Server) -> dict[str, Any]:
        if self.shape == "local":
            entry: dict[str, Any] = {"type": "local", "command": [*server.command]}
            return {**entry, "environment": dict(server.env)} if server.env else entry
        entry = {"type": "stdio"} if self.shape == "typed" else {}
        entry |= {"command": server.command[0], "args": [*server.command[1:]]}
        return {**entry, "env": dict(server.env)} if server.env else entry


@dataclass(frozen=True, slots=True)
class TomlServers:
    """Servers as tables of a TOML file."""

    key: str

    def installed(self, text: str, server: Server) -> Edit:
        """As `Format` says."""
        path = (self.key, ENTRY)
        entry: dict[str, Any] = {"command": server.command[0], "args": [*server.command[1:]]}
        if server.env:
            entry["env"] = dict(server.env)
        try:
            removed = toml_edit.written(text, path)
            if toml_edit.lookup(text, path) == entry:
                return Edit(text, removed, removed)
            after = toml_edit.put(text, path, entry)
        except toml_edit.NotATable as error:
            raise Unchangeable(str(error)) from error
        _check(lambda: toml_edit.lookup(after, path) == entry)
        _check(lambda: self._rest(after) == self._rest(text))
        return Edit(after, removed, toml_edit.written(after, path))

    def uninstalled(self, text: str) -> Edit:
        """As `Format` says."""
        path = (self.key, ENTRY)
        try:
            removed, after = toml_edit.written(text, path), toml_edit.drop(text, path)
        except toml_edit.NotATable as error:
            raise Unchangeable(str(error)) from error
        _check(lambda: toml_edit.lookup(after, path) is None)
        _check(lambda: self._rest(after) == self._rest(text))
        return Edit(after, removed, "")

    def _rest(self, text: str) -> str:
        return _rest(toml_edit.lookup(text, ()), self.key)


def _rest(whole: dict[str, Any], key: str) -> str:
    """All that a file says but our entry, in a form that can be compared."""
    others = {name: value for name, value in whole.get(key, {}).items() if name != ENTRY}
    rest = {name: value for name, value in whole.items() if name != key}
    # As text: a number that is none (nan) is not equal to itself.
    return repr((rest, others))


def _check(holds: Callable[[], bool]) -> None:
    """Refuse to change a file so that it would say anything else than was meant."""
    try:
        if holds():
            return
    except ValueError:
        # What came out is no file of its kind any more.
        pass
    raise Unchangeable("what else it says would not stay the same")


_APPROVE = "Start {title} in this directory and approve the server when it asks."
_TRUST = "{title} reads it only in a directory that it trusts: start it here and say so."
_NOW = "{title} connects when it is started the next time."

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude",
            "Claude Code",
            JsonServers("mcpServers", Dialect(), "typed"),
            project=(".mcp.json",),
            user=(".claude.json",),
            variable="CLAUDE_CONFIG_DIR",
            moved=(".claude.json",),
            next={"user": _NOW, "project": _APPROVE},
        ),
        Client(
            "codex",
            "Codex",
            TomlServers("mcp_servers"),
            project=(".codex/config.toml",),
            user=(".codex/config.toml",),
            variable="CODEX_HOME",
            moved=("config.toml",),
            next={"user": _NOW, "project": _TRUST},
        ),
        Client(
            "gemini",
            "Gemini CLI",
            JsonServers("mcpServers", Dialect(comments=True), "plain"),
            project=(".gemini/settings.json",),
            user=(".gemini/settings.json",),
            variable="GEMINI_CLI_HOME",
            moved=(".gemini/settings.json",),
            next={"user": _TRUST, "project": _TRUST},
        ),
        Client(
            "opencode",
            "OpenCode",
            JsonServers("mcp", Dialect(comments=True, trailing_commas=True), "local"),
            project=("opencode.jsonc", "opencode.json"),
            user=(".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"),
            variable="XDG_CONFIG_HOME",
            moved=("opencode/opencode.jsonc", "opencode/opencode.json"),
            next={"user": _NOW, "project": _NOW},
        ),
        Client(
            "cursor",
            "Cursor",
            JsonServers("mcpServers", Dialect(comments=True, trailing_commas=True), "plain"),
            project=(".cursor/mcp.json",),
            user=(".cursor/mcp.json",),
            variable=None,
            moved=(),
            next={"user": _NOW, "project": _NOW},
        ),
    )
}
"""The programs, by the names that `bullpen mcp install` takes."""
