"""Tells what changed in a repository since a moment: files, lines and commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bullpen.workspace.git.run_git import Git

_FILES_MAX = 3
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with the lines that were added and removed; None if that cannot be counted."""

    path: str
    added: int | None
    removed: int | None
    is_committed: bool

    @property
    def words(self) -> str:
        """Return its name with the lines."""
        if self.added is None or self.removed is None:
            return f"{self.path} ({'binary' if self.is_committed else 'new'})"
        return f"{self.path} +{self.added} -{self.removed}"


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """What changed, and in how many commits."""

    files: tuple[ChangedFile, ...]
    commits: int

    @property
    def words(self) -> str:
        """Return it on one line; empty if nothing changed."""
        if not self.files and not self.commits:
            return ""
        named = ", ".join(each.words for each in self.files[:_FILES_MAX])
        more = len(self.files) - _FILES_MAX
        named += f" and {_counted(more, 'more file')}" if more > 0 else ""
        loose = sum(not each.is_committed for each in self.files)
        how = [
            *([_counted(self.commits, "commit")] if self.commits else []),
            *([f"{_counted(loose, 'file')} not committed"] if loose else []),
        ]
        return "; ".join(each for each in (named, ", ".join(how)) if each)


def changed_since(folder: Path, at_ms: int, branch: str | None = None) -> ChangesSince | None:
    """Return what changed since then on a branch, or without one in the checkout in `folder`.

    In the checkout, files that are not committed count if they were written since. None if nothing
    is known of that moment, such as in a repository that is younger. Raises GitFailed, Unavailable.
    """
    git = Git(folder)
    tip = "HEAD" if branch is None else f"refs/heads/{branch}"
    age = f"--min-age={at_ms // 1000}"
    ran = git.run("rev-list", "--max-count=1", "--first-parent", age, tip, seconds=_SECONDS)
    base = ran.out.strip()
    if not ran.ok or not base:
        return None
    commits = int(git("rev-list", "--count", f"{base}..{tip}", seconds=_SECONDS))
    files = {each.path: each for each in _counts(git, base, tip, is_committed=True)}
    if branch is None:
        top = Path(git("rev-parse", "--show-toplevel"))
        for each in (*_counts(git, "HEAD", is_committed=False), *_new(git.at(top))):
            if _is_since(top / each.path, at_ms):
                files[each.path] = each
    return ChangesSince(tuple(files.values()), commits)


def _counts(git: Git, *between: str, is_committed: bool) -> Iterator[ChangedFile]:
    words = ("diff", "--numstat", "--no-renames", "-z", *between, "--")
    for row in git.lines(*words, seconds=_SECONDS):
        added, removed, path = row.split("\t", 2)
        yield ChangedFile(
            path,
            int(added) if added.isdecimal() else None,
            int(removed) if removed.isdecimal() else None,
            is_committed,
        )


def _new(git: Git) -> Iterator[ChangedFile]:
    words = ("ls-files", "--others", "--exclude-standard", "-z")
    for path in git.lines(*words, seconds=_SECONDS):
        yield ChangedFile(path, None, None, is_committed=False)


def _is_since(path: Path, at_ms: int) -> bool:
    """Return whether a file was written since then, as far as one can see: it may be gone."""
    try:
        return path.lstat().st_mtime_ns // 1_000_000 >= at_ms
    except OSError:
        return True


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
