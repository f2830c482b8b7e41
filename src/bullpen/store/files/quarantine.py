"""Where the doctor puts what cannot be used: nothing is thrown away."""

from __future__ import annotations

import os
import stat

from bullpen.store.files.disk import Disk
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths

_NAME_MAX = 150


def keep(paths: TeamPaths, disk: Disk, path: str, data: bytes) -> None:
    """Keep a copy of what a file holds, or of a part of it."""
    disk.ensure_dir(paths.quarantine)
    disk.write_new(os.path.join(paths.quarantine, _name(path)), data)


def move(paths: TeamPaths, disk: Disk, path: str) -> None:
    """Take something away as it is: a folder, a link, a pipe."""
    name = _name(path)
    if path in (paths.own, paths.quarantine):
        # What stands in the way of the quarantine itself must first step aside.
        aside = os.path.join(os.path.dirname(path), f".{name}")
        disk.rename(path, aside)
        path = aside
    disk.ensure_dir(paths.quarantine)
    disk.rename(path, os.path.join(paths.quarantine, name))


def is_file(path: str) -> bool:
    """Whether there is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _name(path: str) -> str:
    return f"{os.path.basename(path)[:_NAME_MAX]}.{nonce()}"
