"""Scenery: real git repositories of every kind, that no settings of this machine reach into."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

GIT_S = 60.0

_SETTINGS = """\
[user]
	name = Una User
	email = una@example.org
[init]
	defaultBranch = main
[protocol "file"]
	allow = always
[gc]
	auto = 0
"""


def only_these_settings(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let git, and all that this process starts, read no settings but those of these tests."""
    settings = folder / "gitconfig"
    settings.write_text(_SETTINGS, "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        if name not in {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"}:
            monkeypatch.delenv(name)


def git(where: Path, *words: str, given: str | None = None, ok: bool = True) -> str:
    """What git prints in a directory, without the newline at its end."""
    done = subprocess.run(
        ["git", *words],
        cwd=where,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=GIT_S,
        check=False,
    )
    assert done.returncode == 0 or not ok, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout.removesuffix("\n")


def write(where: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory."""
    for name, text in files.items():
        file = where / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def commit(where: Path, files: Mapping[str, str], message: str = "work") -> str:
    """Write files and commit everything there is; the new commit."""
    write(where, files)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(where, "rev-parse", "HEAD")


def make_repository(where: Path, files: Mapping[str, str] | None = None) -> Path:
    """A repository with one commit on `main`."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--initial-branch=main")
    commit(where, files if files is not None else {"a.txt": "one\n", "src/b.py": "b = 1\n"})
    return where


def add_submodule(where: Path, source: Path, path: str) -> None:
    """A submodule, initialised in this tree and committed."""
    git(where, "submodule", "--quiet", "add", str(source), path)
    commit(where, {}, f"add the module {path}")


def add_lfs(where: Path) -> None:
    """A file that only the program `git-lfs` could bring."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
    commit(where, {".gitattributes": "*.bin filter=lfs diff=lfs -text\n", "big.bin": pointer})


def add_hook(where: Path, name: str, script: str) -> Path:
    """A hook of the user's."""
    hook = Path(git(where, "rev-parse", "--path-format=absolute", "--git-path", f"hooks/{name}"))
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    hook.chmod(0o755)
    return hook


def make_sparse(where: Path, *folders: str) -> None:
    """Let this tree show only these folders and the files at the top."""
    git(where, "sparse-checkout", "set", "--cone", *folders)


def add_remote(where: Path, name: str, folder: Path) -> Path:
    """A bare repository as a remote that has all branches of this one."""
    git(where, "init", "--quiet", "--bare", "--initial-branch=main", str(folder))
    git(where, "remote", "add", name, str(folder))
    git(where, "push", "--quiet", name, "--all")
    return folder


def belongings(where: Path) -> dict[str, object]:
    """All that is the user's in a repository, to be compared before and after.

    Left out is what is ours: refs below `refs/bullpen`, branches below `bullpen/`, and the trees
    that are on those branches.
    """
    common = Path(git(where, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    own = Path(git(where, "rev-parse", "--absolute-git-dir"))
    refs = git(where, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    trees = git(where, "worktree", "list", "--porcelain").strip().split("\n\n")
    return {
        "refs": [ref for ref in refs if "/bullpen/" not in ref],
        "stashes": git(where, "stash", "list", "--format=%H %gd %s"),
        "head": (own / "HEAD").read_text("utf-8"),
        "reflog": git(where, "reflog", "--format=%H %gs"),
        "index": (own / "index").read_bytes() if (own / "index").exists() else b"",
        "config": (common / "config").read_text("utf-8"),
        "hooks": sorted(file.name for file in (common / "hooks").glob("*")),
        "trees": [tree for tree in trees if "refs/heads/bullpen/" not in tree],
        "files": files_below(where),
    }


def files_below(where: Path) -> dict[str, tuple[str, bytes]]:
    """Every file and link below a directory with its kind and bytes, but what git keeps."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, names in os.walk(where):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in [name for name in [*names, *links] if name != ".git"]:
            file = Path(folder) / name
            if file.is_symlink():
                found[str(file.relative_to(where))] = ("link", os.fsencode(os.readlink(file)))
            elif file.is_file():
                kind = "program" if os.access(file, os.X_OK) else "file"
                found[str(file.relative_to(where))] = (kind, file.read_bytes())
    return found
