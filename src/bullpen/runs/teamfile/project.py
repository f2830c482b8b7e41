"""Finds out what a team file needs to know about a project: its branch and its tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bullpen.errors import BullpenError, Refused
from bullpen.workspace.git.repository import repository_at
from bullpen.workspace.git.run_git import Git

_LOOKED_AT_BYTES = 200_000
_FILES_LOOKED_AT = 20
# Test functions that unittest would not find.
_OF_PYTEST = re.compile(r"^(import pytest|from pytest|(async )?def test_)", re.MULTILINE)
_MAIN = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master", "refs/heads/trunk")
_NO_TEST_OF_NPM = "no test specified"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder for a team to work in."""

    folder: Path
    # Why worktrees cannot be created, if they cannot.
    no_repository: str | None
    # The branch that is checked out, if any.
    branch: str | None
    # The command that runs its tests, guessed from its files.
    tests: str | None
    # Whether git is used here at all, perhaps still without a commit.
    in_git: bool = True
    # What the branch is compared with in a review; None if there is only this branch.
    base: str | None = None


def look_at(folder: Path) -> Project:
    """Return what is known about a folder."""
    try:
        found = repository_at(folder)
    except BullpenError as error:
        none = isinstance(error, Refused) and error.reason == "no_repository"
        return Project(folder, error.message, None, command_of_tests(folder), in_git=not none)
    tests = command_of_tests(folder) or command_of_tests(found.top)
    return Project(folder, None, found.branch, tests, base=_base(Git(found.top), found.branch))


def _base(git: Git, branch: str | None) -> str | None:
    """Return the main branch that a branch was made from, or None."""
    listed = git.run("for-each-ref", "--format=%(refname)%00%(symref)", *_MAIN)
    rows = [line.split("\0") for line in listed.out.splitlines()] if listed.ok else []
    known = {name: target or name for name, target in rows}
    for name in _MAIN:
        short = known.get(name, "").removeprefix("refs/heads/").removeprefix("refs/remotes/")
        if short and short != branch:
            return short
    return None


def command_of_tests(folder: Path) -> str | None:
    """Return the command that runs the tests of a folder, guessed from its files, or None."""
    return next((found for guess in _GUESSES if (found := guess(folder)) is not None), None)


def _make(folder: Path) -> str | None:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        found = re.search(r"^(test|check)\s*:(?!=)", _text(folder / name), re.MULTILINE)
        if found is not None:
            return f"make {found[1]}"
    return None


def _python(folder: Path) -> str | None:
    settings = ("pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini", "requirements-dev.txt")
    says_so = any("pytest" in _text(folder / name) for name in settings)
    if says_so or _any(folder, "conftest.py") or _any(folder, "test_*.py", _OF_PYTEST):
        return "uv run pytest -q" if (folder / "uv.lock").exists() else "python3 -m pytest -q"
    if _any(folder, "test_*.py"):
        return "python3 -m unittest"
    return None


def _node(folder: Path) -> str | None:
    try:
        said = json.loads(_text(folder / "package.json") or "{}")
        script = said["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(script, str) or _NO_TEST_OF_NPM in script:
        return None
    for lock, program in (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun")):
        if (folder / lock).exists():
            return f"{program} test" if program != "bun" else "bun run test"
    return "npm test"


def _rust(folder: Path) -> str | None:
    return "cargo test --quiet" if (folder / "Cargo.toml").exists() else None


def _go(folder: Path) -> str | None:
    return "go test ./..." if (folder / "go.mod").exists() else None


_GUESSES: tuple[Callable[[Path], str | None], ...] = (_make, _python, _node, _rust, _go)


def _text(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LOOKED_AT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _any(folder: Path, pattern: str, holding: re.Pattern[str] | None = None) -> bool:
    """Return whether there is such a file with a line that matches."""
    try:
        found = (path for where in ("", "tests/") for path in folder.glob(f"{where}{pattern}"))
        looked = islice(found, _FILES_LOOKED_AT)
        return any(holding is None or holding.search(_text(path)) for path in looked)
    except OSError:
        return False
