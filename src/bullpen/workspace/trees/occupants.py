"""Finds who uses a worktree: processes with their directory or an open file in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable

_LSOF_S = 60.0
_SHOWN_MAX = 5
_COMMAND_CHARS_MAX = 80
_DEPTH_MAX = 500
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class User:
    """A running process that uses a worktree."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command})"


def in_use(tree: Path) -> list[User]:
    """Return the running processes with their directory, root or an open file in a worktree.

    Processes that cannot be inspected belong to users who cannot work in such a worktree.

    Raises:
        Unavailable: this system does not say who uses a folder.
    """
    top = _Top(Path(os.path.realpath(tree)))
    if (_PROC / "self" / "fd").is_dir():
        pids = sorted(int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())
        return [User(pid, _command(pid)) for pid in pids if _is_in(pid, top)]
    return _by_lsof(top)


def refuse_in_use(tree: Path, named: Path | None = None) -> None:
    """Refuse to touch a worktree that a process uses (tree_in_use)."""
    users = in_use(tree)
    if users:
        more = f" and {len(users) - _SHOWN_MAX} more" if len(users) > _SHOWN_MAX else ""
        raise Refused(
            f"The worktree {named or tree} is in use by "
            f"{', '.join(str(user) for user in users[:_SHOWN_MAX])}{more}.",
            reason="tree_in_use",
            remedy="Stop these processes, or leave that directory, then try again.",
        )


@dataclass(frozen=True, slots=True)
class _Top:
    """The top of a worktree, and how to tell what is in it."""

    path: Path

    def holds(self, name: str) -> bool:
        """Return whether a path is in the worktree."""
        name = name.removesuffix(" (deleted)")
        return name == str(self.path) or name.startswith(f"{self.path}/")

    def is_above(self, link: Path) -> bool:
        """Return whether the folder behind a link is in the worktree, by identity, not by name."""
        top, at = os.stat(self.path), str(link)
        for _ in range(_DEPTH_MAX):
            look = os.stat(at)
            if (look.st_dev, look.st_ino) == (top.st_dev, top.st_ino):
                return True
            at += "/.."
            above = os.stat(at)
            if (look.st_dev, look.st_ino) == (above.st_dev, above.st_ino):
                return False
        return False


def _is_in(pid: int, top: _Top) -> bool:
    process = _PROC / str(pid)
    links = [process / "cwd"]
    if pid != os.getpid():
        links += [process / "root", process / "exe", *_open_files(process)]
    try:
        if any(top.holds(_target(link)) for link in links) or _has_mapped(process, top):
            return True
        # A process in a sandbox may have another name for the same folder.
        if _target(process / "ns" / "mnt") != _target(_PROC / "self" / "ns" / "mnt"):
            return top.is_above(process / "cwd")
    except OSError:
        # It has ended, or may not be inspected.
        pass
    return False


def _open_files(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:
        return []


def _has_mapped(process: Path, top: _Top) -> bool:
    """Return whether it runs or has mapped a file of the worktree; this process never counts."""
    if process.name == str(os.getpid()):
        return False
    try:
        return f"{top.path}/".encode("utf-8", "surrogateescape") in (process / "maps").read_bytes()
    except OSError:
        return False


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        named = (_PROC / str(pid) / "comm").read_bytes()
    except OSError:
        return "unknown"
    text = b" ".join(words).strip() or named
    return text.decode("utf-8", "replace").strip()[:_COMMAND_CHARS_MAX]


def _by_lsof(top: _Top) -> list[User]:
    program = shutil.which("lsof")
    if program is None:
        raise Unavailable(
            f"Bullpen cannot tell who uses {top.path}: this system has neither /proc nor lsof.",
            remedy="Install lsof.",
        )
    try:
        ran = subprocess.run(  # noqa: S603 - no shell, our own words
            [program, "-nP", "-F", "pcfn"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LSOF_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            f"Bullpen cannot tell who uses {top.path}: lsof failed ({error}).", remedy="Try again."
        ) from None
    return read_lsof(ran.stdout, top.path)


def read_lsof(output: bytes, top: Path) -> list[User]:
    """Return who has something of a worktree open, from the output of `lsof -F pcfn`."""
    holds = _Top(top).holds
    found: dict[int, User] = {}
    pid, command, kind = 0, "", ""
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        field, value = line[:1], line[1:]
        if field == "p":
            pid = int(value)
        elif field == "c":
            command = value
        elif field == "f":
            kind = value
        elif field == "n" and holds(value) and (pid != os.getpid() or kind == "cwd"):
            found[pid] = User(pid, command)
    return list(found.values())
