"""Which projects a person trusts: those whose files may allow things and run commands."""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bullpen.agents.project import up_to_git_root
from bullpen.agents.settings import FileSettings, read_settings
from bullpen.errors import NotFound, Refused, Unreadable
from bullpen.hooks import HookSet
from bullpen.protocol import jsontext

NAME = "trusted.json"


def trusted(home: Path) -> list[str]:
    """The directories that are trusted, by their real paths.

    Raises:
        Unreadable: the file that names them cannot be read.
    """
    path = home / NAME
    try:
        told = jsontext.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    named = told.get("directories") if isinstance(told, dict) else None
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise _unreadable(path, "it is no list of directories")
    return named


def trust(home: Path, directory: Path) -> Path:
    """Trust a project from now on. Returns its real path.

    Raises:
        NotFound: there is no such directory.
    """
    real = directory.resolve()
    if not real.is_dir():
        raise NotFound(f"There is no directory {directory}.", remedy="Name one that exists.")
    with _changing(home) as directories:
        if str(real) not in directories:
            directories.append(str(real))
    return real


def distrust(home: Path, directory: Path) -> bool:
    """Trust a project no more. False if it was not trusted."""
    real = str(directory.resolve())
    with _changing(home) as directories:
        known = real in directories
        if known:
            directories.remove(real)
    return known


def is_trusted(folder: Path, directories: Sequence[str]) -> bool:
    """Whether a folder is trusted: itself, or one above it in the same git tree."""
    return any(str(each) in directories for each in up_to_git_root(folder))


def refuse_untrusted(files: Iterable[tuple[Path, Path]], home: Path, cwd: Path) -> None:
    """Refuse files, each given with its folder, of projects that nobody trusts.

    Raises:
        Refused: not_trusted.
    """
    wanted = list(files)
    if not wanted:
        return
    directories = trusted(home)
    strange = [path for path, folder in wanted if not is_trusted(folder, directories)]
    if strange:
        named = ", ".join(map(str, strange))
        root = shlex.quote(str(up_to_git_root(cwd)[-1]))
        raise Refused(
            f"Nobody has said yet that this project is trusted, and its files would allow things"
            f" or run commands: {named}.",
            reason="not_trusted",
            remedy=f"Read them, then: bullpen trust {root}"
            " - or leave them out with --no-project-settings.",
        )


def hooks_of_people(cwd: Path, *, user_home: Path, home: Path) -> HookSet:
    """The hooks that count for what people do themselves: their own, and trusted projects'.

    Raises:
        Unreadable, Invalid: a file of settings cannot be used.
    """
    directories = trusted(home)
    found = read_settings(cwd, user_home=user_home, home=home)
    counting = [
        each for each in found.files if each.folder is None or is_trusted(each.folder, directories)
    ]
    return HookSet.of(FileSettings(tuple(counting)).hooks)


@contextmanager
def _changing(home: Path) -> Iterator[list[str]]:
    """The list, to be changed; it is written whole or not at all, one change after the other."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(home / f"{NAME}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = trusted(home)
        directories = list(before)
        yield directories
        if directories != before:
            _write(home / NAME, {"directories": directories})
    finally:
        os.close(lock)


def _write(path: Path, value: Any) -> None:
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(jsontext.dumps(value))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _unreadable(path: Path, why: str) -> Unreadable:
    return Unreadable(str(path), why, remedy="Mend it, or remove it and trust anew.")
