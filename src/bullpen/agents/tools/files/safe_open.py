"""Open exactly the file that the gate decided about, even if a link changes in the meantime.

Between the decision about a path and its use, someone may put a link into the path. So the gate
decides about the real path and keeps it, and the tools open that path one name at a time without
following links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from bullpen.errors import Invalid, Refused

# The path as the call names it, and its real path.
_KEPT: ContextVar[tuple[str, str] | None] = ContextVar("bullpen_kept_path", default=None)

# Where the system has O_PATH, passing through a directory needs no permission to read it.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def absolute(path: str, cwd: str) -> str:
    """The absolute form of an agent's path. Raises Invalid if it cannot be a path."""
    if not path.strip() or "\0" in path:
        raise Invalid(
            f"{path!r} is not a valid path.", remedy="Give the path of a file or directory."
        )
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def look_up(path: str, cwd: str) -> str:
    """The real path now, with all links resolved. Raises Refused or Invalid."""
    named = absolute(path, cwd)
    try:
        return os.path.realpath(named)
    except OSError:
        raise _changed(named) from None


def keep(path: str, real: str) -> None:
    """From now on, this asyncio task resolves `path` to the real path that was decided about."""
    _KEPT.set((path, real))


def real_path(path: str, cwd: str) -> str:
    """The real path: the one that was decided about, or else the present one."""
    kept = _KEPT.get()
    if kept is not None and kept[0] == path:
        return kept[1]
    return look_up(path, cwd)


@contextmanager
def folder_of(real: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory of a real path, and yield it with the name of the file in it.

    Raises Refused if a part of the path is now a link, and OSError.
    """
    folder, name = os.path.split(real)
    descriptor = os.open("/", _THROUGH)
    try:
        for part in filter(None, folder.split("/")):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = _entered(part, descriptor, real)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, name or "."
    finally:
        os.close(descriptor)


def _entered(part: str, folder: int, real: str) -> int:
    try:
        return os.open(part, _THROUGH, dir_fd=folder)
    except OSError:
        if _is_link(part, folder):
            raise _changed(real) from None
        raise


def open_in(folder: int, name: str, flags: int, *, real: str) -> int:
    """Open a file in an open directory. Raises Refused if it is now a link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError:
        if _is_link(name, folder):
            raise _changed(real) from None
        raise


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def _changed(real: str) -> Refused:
    return Refused(
        f"{real!r} changed while it was opened: a link in its path was added or removed.",
        reason="changed",
        remedy="Look at the path again, then retry.",
    )
