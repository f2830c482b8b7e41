"""A tool call with everything that is known about it before it is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.rule_language import paths, web_address
from bullpen.agents.permissions.rule_language.package_names import NOT_FOR_PACKAGES
from bullpen.agents.permissions.rule_language.rule import PATH_TOOLS
from bullpen.agents.permissions.shell.parse import CommandLine, split
from bullpen.team.requests.mode_rules import Kind


@dataclass(frozen=True, slots=True)
class CallCase:
    """A call with everything known about it. `places` is None if it is not about files."""

    call: Call
    rights: Rights
    kind: Kind
    places: tuple[paths.RealPath, ...] | None = None
    line: CommandLine | None = None

    @classmethod
    def of(cls, call: Call, rights: Rights) -> CallCase:
        """The case of a call under these rights."""
        kind: Kind = "run" if call.tool.startswith("mcp__") else call.kind
        line = split(_command(call)) if call.tool == "Bash" else None
        return cls(call, rights, kind, _places(call, kind, rights), line)

    @property
    def like(self) -> str:
        """The tool whose rules also forbid it: a package's tool reads and writes as ours do."""
        return _like(self.call, self.kind)

    @property
    def command(self) -> str:
        """The command line; empty if there is none."""
        return _command(self.call)

    @property
    def inside(self) -> bool:
        """Whether everything that it is about is in the agent's directories."""
        if self.places is None:
            return self.call.tool not in web_address.WEB_TOOLS and self.like != "Read"
        roots = roots_of(self.rights)
        more = self.rights.readable if self.kind == "read" else ()
        return all(paths.lies_in(each, roots) or is_in(each, more) for each in self.places)


def _command(call: Call) -> str:
    command = call.input.get("command")
    return command if isinstance(command, str) else ""


def _like(call: Call, kind: Kind) -> str:
    if call.tool in NOT_FOR_PACKAGES or call.tool.startswith("mcp__"):
        return call.tool
    return {"read": "Read", "write": "Write"}.get(kind, call.tool)


def _places(call: Call, kind: Kind, rights: Rights) -> tuple[paths.RealPath, ...] | None:
    named = _named(call)
    # A tool of a package that reads and names no file may read anything.
    reads = named is not None and _like(call, kind) == "Read"
    if call.tool not in PATH_TOOLS and kind != "write" and not reads:
        return None
    if named is None:
        return (paths.NOWHERE,)
    found = tuple(paths.place(each, rights.cwd, rights.user_home) for each in named)
    # Not resolved again: this path will be opened, wherever links lead by now.
    return found if call.real is None else (*found, paths.RealPath((call.real,), (call.real,)))


def _named(call: Call) -> Iterable[str] | None:
    """The paths that a call names; None if they are unknown."""
    given = call.input
    if call.tool == "Glob":
        pattern, path = given.get("pattern"), given.get("path")
        if not isinstance(pattern, str) or not isinstance(path, str | None):
            return None
        return paths.glob_paths(pattern, path)
    if call.tool in ("Grep", "LS"):
        path = given.get("path") or "."
        return [path] if isinstance(path, str) else None
    # All of them: a program may open another one than the first.
    named = [given[key] for key in ("file_path", "notebook_path", "path") if key in given]
    return named if named and all(isinstance(each, str) for each in named) else None


def bases_of(rights: Rights) -> paths.Bases:
    """Where the paths in rules begin."""
    return paths.Bases(rights.cwd, rights.user_home, roots_of(rights)[1:])


def roots_of(rights: Rights) -> tuple[str, ...]:
    """The agent's working directories, its own first."""
    given = (rights.cwd, *rights.directories)
    return tuple(paths.absolute(each, rights.cwd, rights.user_home) for each in given)


def is_in(place: paths.RealPath, folders: tuple[str, ...]) -> bool:
    """Whether a path is certainly in one of these folders, given by their real paths.

    They are compared as they are: a link in the place of one would lead elsewhere.
    """
    within = (any(paths.below(path, each) for each in folders) for path in place.real)
    return place.sure and bool(place.real) and all(within)
