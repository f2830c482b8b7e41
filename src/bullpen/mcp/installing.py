"""Putting our server into the configuration of another program, and taking it out again.

First it is worked out what would become of the file, so that a person can look at it; then that,
and nothing else, is written.
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

from bullpen.app import HOME
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unavailable, Unreadable
from bullpen.mcp.clients import ENTRY, Client, Edit, Scope, Server, Unchangeable

_OTHER: dict[Scope, Scope] = {"user": "project", "project": "user"}


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one file. `before` is None if it is not there yet."""

    path: Path
    scope: Scope
    before: bytes | None
    after: bytes
    removed: str
    added: str

    @property
    def is_needed(self) -> bool:
        """Whether the file does not say it already."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program's files are looked for: a project, and the user's environment."""

    project: Path
    env: Mapping[str, str]

    def of(self, client: Client, scope: Scope) -> Path:
        """The file in which our entry is or belongs.

        Raises:
            Invalid: nobody knows where the home of the user is.
        """
        if not self.env.get("HOME"):
            raise Invalid("HOME is not set: where is your home?", remedy="Set it.")
        files = client.files(scope, project=self.project, env=self.env)
        # OpenCode reads two files, and the entry may be in either.
        holding = [path for path in files if _has_entry(client, path)]
        existing = [path for path in files if os.path.lexists(path)]
        return (holding or existing or files[-1:])[0]


def server_of(
    program: Sequence[str], *, team: str, member: str, tools: str, home: str | None
) -> Server:
    """What a program starts to be a member of a team. `home` is None if it is the usual one.

    Raises:
        Invalid: a path is no text, so that it cannot be written into a file.
    """
    words = (*program, "mcp", "--team", team, "--as", member)
    if tools != "all":
        words = (*words, "--tools", tools)
    for word in (*words, home or ""):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise Invalid(
                f"{word!r} is no text in UTF-8 and cannot be written into a configuration.",
                remedy="Install Bullpen, or put its home, under another path.",
            ) from None
    return Server(words, {} if home is None else {HOME: home})


def this_program(called: str) -> tuple[str, ...]:
    """The words that start this very Bullpen again, from any directory. `called` is argv[0]."""
    found = shutil.which(called)
    if found is None or os.path.basename(found) == "__main__.py":
        return (sys.executable, "-m", "bullpen")
    # A link is kept: what installs programs moves what is behind it.
    return (os.path.abspath(found),)


def installing(client: Client, scope: Scope, server: Server, place: Place) -> Change:
    """What `install` would do.

    Raises:
        Unreadable: the file is there and cannot be read as what it should be.
        Refused: the file cannot be changed without harm (not_changeable).
    """
    path = place.of(client, scope)
    return _change(path, scope, lambda text: client.format.installed(text, server))


def uninstalling(client: Client, scope: Scope, place: Place) -> Change:
    """What `uninstall` would do.

    Raises:
        NotFound: the file has no entry of ours.
        Unreadable, Refused: as for `installing`.
    """
    path = place.of(client, scope)
    try:
        return _change(path, scope, client.format.uninstalled)
    except KeyError:
        other = _OTHER[scope]
        there = place.of(client, other)
        remedy = f"{there} has one: --scope {other}" if _has_entry(client, there) else ""
        raise NotFound(f"{path} has no server {ENTRY!r}.", remedy=remedy) from None


def write(change: Change) -> None:
    """Write a file as it was shown: whole or not at all, with its mode, through its links.

    Raises:
        Conflict: somebody else has changed it since.
        Unavailable: it cannot be written.
    """
    target = Path(os.path.realpath(change.path))
    if _content(target) != change.before:
        raise Conflict(
            f"{change.path} was changed by somebody else meanwhile; nothing was written.",
            remedy="Run it again.",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, change.after, _mode(target, change.scope))
    except OSError as error:
        raise Unavailable(
            f"Cannot write {change.path}: {error.strerror}; it is as it was.",
            remedy="Check the permissions of the file and its folder.",
        ) from error


def _change(path: Path, scope: Scope, edit: Callable[[str], Edit]) -> Change:
    before = _content(path)
    try:
        edited = edit("" if before is None else before.decode("utf-8"))
    except ValueError as error:
        raise Unreadable(
            str(path), str(error), remedy="Mend it and run this again. Nothing was written."
        ) from error
    except Unchangeable as error:
        raise Refused(
            f"{path} cannot be changed here: {error}.",
            reason="not_changeable",
            remedy=f"Change its entry {ENTRY!r} by hand. Nothing was written.",
        ) from error
    return Change(path, scope, before, edited.text.encode(), edited.removed, edited.added)


def _has_entry(client: Client, path: Path) -> bool:
    try:
        _change(path, "user", client.format.uninstalled)
    except (KeyError, Unreadable):
        return False
    except Refused:
        return True
    return True


def _content(path: Path) -> bytes | None:
    """The bytes of a file; None if there is none.

    Raises:
        Unreadable: it is there and cannot be read.
    """
    try:
        # Opening a pipe would wait for whoever writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(str(path), str(error.strerror), remedy="Nothing was written.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(str(path), "it is no regular file", remedy="Nothing was written.")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _mode(target: Path, scope: Scope) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        # A user's file will hold more than our entry, such as keys; a project's is shared.
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
