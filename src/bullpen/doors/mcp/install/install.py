"""Add our server to the configuration of another program, and remove it again.

The change is computed first, so that a person can review it. Then exactly that is written.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.app.settings import HOME
from bullpen.doors.mcp.install.clients import ENTRY, Client, Edit, Scope, ServerEntry
from bullpen.doors.mcp.install.toml_edit import Unchangeable
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unavailable, Unreadable

_OTHER: dict[Scope, Scope] = {"user": "project", "project": "user"}


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one file. `before` is None if the file does not exist yet.

    `target` is the file that is written: another one than `path` if that is a link.
    """

    path: Path
    target: Path
    scope: Scope
    before: bytes | None
    after: bytes
    removed: str
    added: str

    @property
    def is_needed(self) -> bool:
        """Whether the file has to be changed at all."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """Where to look for a program's files: a project and the user's environment."""

    project: Path
    env: Mapping[str, str]

    def of(self, client: Client, scope: Scope) -> Path:
        """The file that has our entry, or should get it.

        Raises:
            Invalid: the user's home is unknown.
        """
        if not self.env.get("HOME"):
            raise Invalid(
                "Cannot find your home directory: HOME is not set.",
                remedy="Set HOME and try again.",
            )
        files = client.files(scope, project=self.project, env=self.env)
        # OpenCode reads two files, and the entry may be in either.
        holding = [path for path in files if _has_entry(client, path)]
        existing = [path for path in files if os.path.lexists(path)]
        return (holding or existing or files[-1:])[0]


def server_of(
    program: Sequence[str], *, team: str, member: str, tools: str, home: str | None
) -> ServerEntry:
    """The command that a program starts to join a team. `home` is None for the default home.

    Raises:
        Invalid: a path is not valid UTF-8, so it cannot be written into a file.
    """
    words = (*program, "mcp", "--team", team, "--as", member)
    if tools != "all":
        words = (*words, "--tools", tools)
    for word in (*words, home or ""):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise Invalid(
                f"{word!r} is not valid UTF-8 and cannot be written into a configuration file.",
                remedy="Move Bullpen or its home to another path.",
            ) from None
    return ServerEntry(words, {} if home is None else {HOME: home})


def this_program(called: str) -> tuple[str, ...]:
    """The command that starts this installation of Bullpen from any directory.

    `called` is argv[0].
    """
    found = shutil.which(called)
    if found is None or os.path.basename(found) == "__main__.py":
        # Without -P, a bullpen.py in the directory where the program is started would run.
        return (sys.executable, "-P", "-m", "bullpen")
    # Links are kept: package managers move their targets.
    return (os.path.abspath(found),)


def installing(client: Client, scope: Scope, server: ServerEntry, place: ConfigPlace) -> Change:
    """The change that `install` would make.

    Raises:
        Unreadable: the file exists but cannot be read or parsed.
        Refused: the file cannot be changed safely (not_changeable), or is a link out of the project
            (leaves_project).
    """
    path = place.of(client, scope)
    _check_stays(path, scope, place.project)
    return _change(path, scope, lambda text: client.format.installed(text, server))


def uninstalling(client: Client, scope: Scope, place: ConfigPlace) -> Change:
    """The change that `uninstall` would make.

    Raises:
        NotFound: the file has no entry of ours.
        Unreadable, Refused: as for `installing`.
    """
    path = place.of(client, scope)
    _check_stays(path, scope, place.project)
    try:
        return _change(path, scope, client.format.uninstalled)
    except KeyError:
        other = _OTHER[scope]
        there = place.of(client, other)
        remedy = f"{there} has one: use --scope {other}." if _has_entry(client, there) else ""
        raise NotFound(f"{path} has no server {ENTRY!r}.", remedy=remedy) from None


def write(change: Change) -> None:
    """Write a file as it was shown: atomically, with the same mode, following links.

    Raises:
        Conflict: another process has changed it since.
        Unavailable: it cannot be written.
    """
    target = change.target
    if _target(change.path) != target or _content(target) != change.before:
        raise Conflict(
            f"Another process changed {change.path} in the meantime. Nothing was written.",
            remedy="Run the command again.",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, change.after, _mode(target, change.scope))
    except OSError as error:
        raise Unavailable(
            f"Cannot write {change.path}: {error.strerror}. The file is unchanged.",
            remedy="Check the permissions of the file and its folder.",
        ) from error


def _change(path: Path, scope: Scope, edit: Callable[[str], Edit]) -> Change:
    before = _content(path)
    try:
        edited = edit("" if before is None else before.decode("utf-8"))
    except ValueError as error:
        raise Unreadable(
            str(path),
            str(error),
            remedy="Repair the file and run the command again. Nothing was written.",
        ) from error
    except Unchangeable as error:
        raise Refused(
            f"Cannot change {path}: {error}.",
            reason="not_changeable",
            remedy=f"Edit its entry {ENTRY!r} by hand. Nothing was written.",
        ) from error
    return Change(
        path, _target(path), scope, before, edited.text.encode(), edited.removed, edited.added
    )


def _check_stays(path: Path, scope: Scope, project: Path) -> None:
    """Refuse a project's file that is not in the project: whoever wrote the project chose where."""
    if scope == "project" and not _target(path).is_relative_to(_target(project)):
        raise Refused(
            f"{path} leads out of the project, to {_target(path)}.",
            reason="leaves_project",
            remedy="Replace the link by a file, or use --scope user. Nothing was written.",
        )


def _target(path: Path) -> Path:
    """The path without links."""
    return Path(os.path.realpath(path))


def _has_entry(client: Client, path: Path) -> bool:
    try:
        _change(path, "user", client.format.uninstalled)
    except (KeyError, Unreadable):
        return False
    except Refused:
        return True
    return True


def _content(path: Path) -> bytes | None:
    """The bytes of a file; None if it does not exist.

    Raises:
        Unreadable: it exists but cannot be read.
    """
    try:
        # Opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(str(path), str(error.strerror), remedy="Nothing was written.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(str(path), "it is not a regular file", remedy="Nothing was written.")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _mode(target: Path, scope: Scope) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        # A user's file may hold secrets such as keys; a project's file is shared.
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o600 if scope == "user" else 0o666 & ~mask


def _replace(target: Path, content: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
