"""Find and read a project's own files for agents."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from bullpen.errors import Unreadable

BYTES_MAX = 1_000_000
"""The most bytes that a file for agents may have."""


def up_to_git_root(cwd: Path) -> list[Path]:
    """The directory and its parents up to the git root; only itself outside of git."""
    here = cwd.resolve()
    folders = [here, *here.parents]
    for index, folder in enumerate(folders):
        if (folder / ".git").exists():
            return folders[: index + 1]
    return [here]


def read_limited(path: Path) -> bytes | None:
    """The content of a small regular file; None if it does not exist. Raises Unreadable."""
    try:
        with _opened(path) as file:
            data = file.read(BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    if len(data) > BYTES_MAX:
        raise unreadable(path, f"it is larger than {BYTES_MAX} bytes")
    return data


def file_digest(path: Path) -> str:
    """The SHA-256 of a whole regular file. Raises Unreadable."""
    try:
        with _opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    # Do not block: a named pipe may never get a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise unreadable(path, "it is not a regular file")
        yield file


def unreadable(path: Path, why: str) -> Unreadable:
    """The error of a file that cannot be used."""
    return Unreadable(str(path), why, remedy="Fix the file or remove it.")
