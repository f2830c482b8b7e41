"""Repositories with many small files to measure on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

WHO = b"committer Ben Chmark <ben@example.org> 0 +0000\ndata 4\nwork\n"
"""Who made a commit, and its message."""

_PER_FOLDER = 50
_GIT_S = 1_800.0


def use_git_defaults() -> None:
    """Ignore this machine's settings, so that all use git's defaults."""
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(where: Path, *words: str, given: bytes | None = None) -> str:
    """What a git command prints."""
    done = subprocess.run(
        ["git", *words], cwd=where, input=given, timeout=_GIT_S, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode().strip()


def first_commit(files: int) -> Iterator[bytes]:
    """A commit with so many small files, in the format of `git fast-import`."""
    yield b"commit refs/heads/main\nmark :1\n" + WHO
    for number in range(files):
        text = f"# File {number}\n".encode() + b"value = 'some text that fills a line'\n" * 8
        yield file_row(number, text)


def file_row(number: int, text: bytes) -> bytes:
    """One file of a commit, by its number."""
    return f"M 100644 inline {file_name(number)}\ndata {len(text)}\n".encode() + text + b"\n"


def file_name(number: int) -> str:
    """The path of a file, by its number."""
    return f"part{number // 2500}/folder{number // _PER_FOLDER}/file{number}.py"


def repository(where: Path, stream: bytes) -> Path:
    """A repository with these commits, checked out."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--initial-branch=main")
    git(where, "config", "user.name", "Ben Chmark")
    git(where, "config", "user.email", "ben@example.org")
    git(where, "fast-import", "--quiet", given=stream)
    git(where, "reset", "--hard", "--quiet")
    # Files as old as the index would be read again by every git status.
    time.sleep(1.1)
    git(where, "update-index", "--really-refresh", "-q")
    return where
