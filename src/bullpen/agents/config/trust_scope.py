"""Which files of a project `bullpen trust` covers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bullpen.protocol.guarded_paths import guarded

ProjectFile = tuple[Path, Path] | tuple[Path, Path, str]
"""A file, the folder of the project it belongs to, and the SHA-256 of the bytes that were read.

Give the digest if you have read the file: then what is checked is what is used. Without it, the
file is read when it is checked.
"""

_KINDS = ("settings", "program")


def files_to_trust(directory: Path) -> list[ProjectFile]:
    """The files of a project that can allow things or run commands for an agent.

    They are those in and below the directory that Bullpen, or a program that it starts, takes
    settings from. Repositories inside of it are projects of their own.
    """
    return [*_settings(directory.resolve())]


def _settings(project: Path) -> Iterator[ProjectFile]:
    top = str(project)
    for folder, inner, names in os.walk(top):
        if folder != top and (".git" in inner or ".git" in names):
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if name != ".git")
        found = [os.path.join(folder, name) for name in sorted(names)]
        for name in inner:
            # A linked folder is not walked, but its files are read through the link.
            linked = Path(folder, name)
            counts = guarded(os.path.join(folder, name)[len(top) :]) in _KINDS
            if counts and linked.is_symlink() and linked.resolve().is_relative_to(project):
                found += map(str, sorted(linked.rglob("*")))
        for path in found:
            # Trees are large: a path becomes an object only if it counts.
            if guarded(path[len(top) :]) in _KINDS and os.path.isfile(path):
                yield Path(path), project
