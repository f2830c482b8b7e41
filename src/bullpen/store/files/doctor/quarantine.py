"""Where the doctor moves what cannot be used. Nothing is thrown away."""

from __future__ import annotations

import os
import stat

from bullpen.store.contract import Finding
from bullpen.store.files.disk import Disk, nonce
from bullpen.store.files.paths import TeamPaths

_NAME_MAX = 150


def keep(paths: TeamPaths, disk: Disk, path: str, data: bytes) -> None:
    """Keep a copy of a file's content, or of a part of it."""
    disk.ensure_dir(paths.quarantine)
    disk.write_new(os.path.join(paths.quarantine, _name(path)), data)


def move(paths: TeamPaths, disk: Disk, path: str) -> None:
    """Move something away as it is: a folder, a link, a pipe."""
    name = _name(path)
    if path in (paths.own, paths.quarantine):
        # Something that blocks the quarantine folder itself has to be moved first.
        aside = os.path.join(os.path.dirname(path), f".{name}")
        disk.rename(path, aside)
        path = aside
    disk.ensure_dir(paths.quarantine)
    disk.rename(path, os.path.join(paths.quarantine, name))


def finding(kind: str, path: str, what: str, action: str, *, fix: bool) -> Finding:
    """Return a finding that was repaired by this action if asked to."""
    return Finding(kind, path, what, fixed=fix, action=action if fix else "")


def is_file(path: str) -> bool:
    """Return whether it is a regular file, not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _name(path: str) -> str:
    return f"{os.path.basename(path)[:_NAME_MAX]}.{nonce()}"
