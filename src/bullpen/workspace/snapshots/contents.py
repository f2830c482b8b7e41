"""What is in a worktree, found by reading the disk. Links are not followed."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bullpen.workspace.git.layout import Layout
from bullpen.workspace.git.marks import read_errors

# Names that git does not accept in a tree, on this or any other system.
_REFUSED = re.compile(r"(\.git([ .:].*)?|git~\d.*)", re.IGNORECASE | re.DOTALL)
_LIKE_GITS = re.compile(r"\.git.+", re.IGNORECASE | re.DOTALL)
# Characters that some file systems drop from names.
_NOT_SEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

_PLAIN_FOLDERS = {0o755, 0o775}


@dataclass(slots=True)
class Contents:
    """What is in a worktree, by paths relative to its top."""

    # Files and symbolic links.
    files: dict[str, os.stat_result] = field(default_factory=dict)
    # Folders in which nothing is saved, and the permissions of those that have others.
    empty: list[str] = field(default_factory=list)
    folders: dict[str, int] = field(default_factory=dict)
    # Separate repositories whose git dir is in this worktree or in its git dir.
    nested: list[str] = field(default_factory=list)
    # Names that git does not accept in a tree.
    apart: list[str] = field(default_factory=list)
    # Worktrees of other repositories: they belong to somebody else.
    strangers: list[str] = field(default_factory=list)
    # Things without content: sockets, pipes, devices.
    left_out: list[str] = field(default_factory=list)
    # File systems that are mounted in it.
    mounts: list[str] = field(default_factory=list)


def contents_of(place: Layout) -> Contents:
    """Return everything in a worktree except its own git dir. Raises Unavailable."""
    found = Contents()
    look = place.top.lstat()
    # Folders to read: the name with a slash at the end, and their kind.
    waiting = [("", look.st_mode)]
    while waiting:
        prefix, mode = waiting.pop()
        entries = _entries(f"{place.top}/{prefix}")
        if prefix and any(entry.name == ".git" for entry in entries):
            kind = _kind_of(place, place.top / prefix)
            (found.nested if kind == "nested" else found.strangers).append(prefix[:-1])
            continue
        kept = 0
        for entry in entries:
            if prefix or entry.name != ".git":
                kept += _sort_in(found, entry, prefix, look.st_dev, waiting)
        if prefix and not kept:
            found.empty.append(prefix[:-1])
        if prefix and stat.S_IMODE(mode) not in _PLAIN_FOLDERS:
            found.folders[prefix[:-1]] = stat.S_IMODE(mode)
    found.mounts += _mounted_below(place.top, found.mounts)
    return found


def _sort_in(
    found: Contents,
    entry: os.DirEntry[str],
    prefix: str,
    device: int,
    waiting: list[tuple[str, int]],
) -> bool:
    """Put one entry where it belongs. Returns whether it is worth saving by itself."""
    try:
        look = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    name = prefix + entry.name
    is_link, is_folder = stat.S_ISLNK(look.st_mode), stat.S_ISDIR(look.st_mode)
    if not is_folder and not is_link and not stat.S_ISREG(look.st_mode):
        found.left_out.append(name)
        return False
    if is_refused(entry.name, is_link=is_link):
        found.apart.append(name)
    elif not is_folder:
        found.files[name] = look
    elif look.st_dev != device:
        found.mounts.append(name)
    else:
        waiting.append((f"{name}/", look.st_mode))
    return True


def is_refused(name: str, *, is_link: bool = False) -> bool:
    """Return whether git refuses a file of this name in a tree."""
    if name[0] not in ".gG" and name.isascii():
        return False
    seen = _NOT_SEEN.sub("", name)
    return bool(_REFUSED.fullmatch(seen) or (is_link and _LIKE_GITS.fullmatch(seen)))


def git_dir_named(file: Path) -> Path | None:
    """Return the git dir that a `.git` file points to; None if it points to none."""
    try:
        text = os.fsdecode(file.read_bytes()[:65_536])
    except OSError:
        return None
    if not text.startswith("gitdir:"):
        return None
    target = (file.parent / text.removeprefix("gitdir:").strip("\r\n").strip(" ")).resolve()
    return target if target.is_dir() else None


def _kind_of(place: Layout, folder: Path) -> Literal["nested", "stranger"]:
    """Return whose a repository inside is: part of this worktree, or of one elsewhere."""
    git = folder / ".git"
    if git.is_symlink() or not git.is_file():
        return "nested"
    target = git_dir_named(git)
    if target is None or target.is_relative_to(place.top):
        return "nested"
    return "nested" if target.is_relative_to(place.own / "modules") else "stranger"


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with read_errors(folder), os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _mounted_below(top: Path, known: list[str]) -> list[str]:
    """Return where file systems are mounted in a worktree, including bind mounts."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    unescape = re.compile(rb"\\(\d{3})")
    points = [
        Path(os.fsdecode(unescape.sub(lambda found: bytes([int(found[1], 8)]), line.split()[4])))
        for line in lines
    ]
    inside = [str(point.relative_to(top)) for point in points if top in point.parents]
    return sorted({name for name in inside if name not in known})
