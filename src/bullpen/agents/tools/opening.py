"""Opening the file that was decided about, and no other that a link leads to by now.

Between the verdict on a path and its use somebody may put a link in its way. So the gate keeps
where the path really lies, the verdict is on that, and the tools open it name by name, following
no link at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from bullpen.errors import Invalid, Refused

# The path as the call names it, and where that really lies.
_KEPT: ContextVar[tuple[str, str] | None] = ContextVar("bullpen_kept_path", default=None)

# To go through a directory takes less than to read it, where the system knows the difference.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def absolute(path: str, cwd: str) -> str:
    """A path as an agent means it. Raises Invalid for what cannot be a path."""
    if not path.strip() or "\0" in path:
        raise Invalid(f"{path!r} is no path.", remedy="Give the path of a file or directory.")
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def look_up(path: str, cwd: str) -> str:
    """Where a path lies now, past all links.

    Raises:
        Refused: changed; it turns into something else while it is looked at.
        Invalid: it can be no path.
    """
    named = absolute(path, cwd)
    try:
        return os.path.realpath(named)
    except OSError:
        raise _changed(named) from None


def keep(path: str, real: str) -> None:
    """From now on this task takes a path for what it was when it was decided about."""
    _KEPT.set((path, real))


def real_path(path: str, cwd: str) -> str:
    """Where a path really lies: as it was decided about, or as it is if nobody decided."""
    kept = _KEPT.get()
    if kept is not None and kept[0] == path:
        return kept[1]
    return look_up(path, cwd)


@contextmanager
def folder_of(real: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The directory that a real path lies in, opened, and the name of the file in it.

    Raises:
        Refused: changed; there is a link on the way now.
        OSError: it cannot be opened, or made if `make` asks for that.
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
    """A file in an open directory. Raises Refused if it is a link by now."""
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
        f"{real!r} has changed while it was opened: a link came or went on the way to it.",
        reason="changed",
        remedy="Look what is there, and try again.",
    )
