"""Everything that is in a tree, to be compared with what was brought back."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from support.git.repositories import git


@dataclass(frozen=True, slots=True)
class Census:
    """The bytes in a tree, and what git says of it and of the repositories inside."""

    files: dict[str, tuple[str, bytes]]
    folders: frozenset[str]
    says: dict[str, str]


def census(tree: Path) -> Census:
    """Look at everything in a tree."""
    files: dict[str, tuple[str, bytes]] = {}
    folders = set()
    inside = [""]
    for name, is_folder in _below(tree):
        path = tree / name
        if path.name == ".git" and path.is_file() and not path.is_symlink():
            # It says where the git dir is, which is elsewhere when the tree is.
            inside.append(os.path.dirname(name))
            files[name] = ("git file", b"")
            continue
        if path.name == ".git" and is_folder and (path / "HEAD").exists():
            inside.append(os.path.dirname(name))
        look = path.lstat()
        if is_folder:
            folders.add(name)
        elif stat.S_ISLNK(look.st_mode):
            files[name] = ("link", os.fsencode(os.readlink(path)))
        elif stat.S_ISREG(look.st_mode) and not _says_where(name):
            kind = "program" if look.st_mode & 0o100 else "file"
            files[name] = (kind, path.read_bytes())
    says = {name: text for each in inside for name, text in _says(tree, each).items()}
    return Census(files, frozenset(folders), says)


def differences(one: Census, other: Census) -> list[str]:
    """How two differ, in words; empty if they do not."""
    files = one.files.keys() | other.files.keys()
    says = one.says.keys() | other.says.keys()
    return [
        *(
            f"file {name!r}: {_short(one, name)} != {_short(other, name)}"
            for name in sorted(files)
            if one.files.get(name) != other.files.get(name)
        ),
        *(
            f"folder {name!r} is {'missing' if name in one.folders else 'new'}"
            for name in sorted(one.folders ^ other.folders)
        ),
        *(
            f"{name}:\n{one.says.get(name)}\n  is now\n{other.says.get(name)}"
            for name in sorted(says)
            if one.says.get(name) != other.says.get(name)
        ),
    ]


def _below(tree: Path) -> list[tuple[str, bool]]:
    found = []
    for folder, folders, names in os.walk(tree):
        here = os.path.relpath(folder, tree)
        prefix = "" if here == "." else f"{here}/"
        if not prefix and ".git" in folders:
            folders.remove(".git")
        if not prefix and ".git" in names:
            names.remove(".git")
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [(f"{prefix}{name}", False) for name in [*names, *links]]
        found += [(f"{prefix}{name}", True) for name in folders if name not in links]
    return found


def _says_where(name: str) -> bool:
    return "/.git/worktrees/" in name and name.endswith("/gitdir")


def _says(tree: Path, name: str) -> dict[str, str]:
    where = tree / name

    def ask(*words: str) -> str:
        return git(where, "--no-optional-locks", *words, ok=False)

    said = {
        "head": ask("rev-parse", "HEAD"),
        "index": ask("ls-files", "--stage", "-v", "-z"),
        "status": _certain(ask("status", "--porcelain=v2", "--ignored=matching", "-z")),
        "log of the head": ask("log", "--walk-reflogs", "--format=%H %gs"),
        "merging": ask("rev-parse", "--verify", "--quiet", "MERGE_HEAD"),
        "rebasing": ask("rev-parse", "--verify", "--quiet", "REBASE_HEAD"),
    }
    if name:
        said["all commits"] = ask("log", "--all", "--format=%H", "--date-order")
        said["stashes"] = ask("stash", "list", "--format=%H %s")
        said["branches"] = ask("for-each-ref", "--format=%(refname) %(objectname)")
    return {f"{name or 'the tree'}: {key}": text for key, text in said.items()}


def _certain(status: str) -> str:
    """What git says of files but of those with filters.

    What it takes these for depends on whether it looks at their bytes again, when their attributes
    were changed after they were added.
    """
    rows = status.split("\0")
    return "\0".join(row for row in rows if not row.endswith((".crlf", ".lossy", ".same")))


def _short(one: Census, name: str) -> str:
    kind, data = one.files.get(name, ("nothing", b""))
    return f"{kind} {data[:80]!r}"
