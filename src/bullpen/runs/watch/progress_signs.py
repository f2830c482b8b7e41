"""Signs of an agent's progress in its transcript and its worktree."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bullpen.agents.system.transcript import row_of
from bullpen.errors import BullpenError
from bullpen.protocol import json_text
from bullpen.workspace.git.run_git import Git

LOOP_CALLS = 12
"""How often the same call may have the same result in a row before it counts as a loop."""

_BYTES_MAX = 4_000_000
_GIT_S = 30.0
# Tools that check whether something has ended, which may take many calls.
_LOOKS = ("BashOutput",)


class Trail:
    """The transcript of one agent as it grows: its length, and whether the agent is in a loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at: int | None = None
        self._call: str | None = None
        self._last: str | None = None
        self._named = ""
        self.same = 0
        self.rows = 0

    def follow(self) -> None:
        """Read what is new. An unreadable transcript counts as unchanged."""
        try:
            size = self._path.stat().st_size
            if self._at is None or size < self._at or size - self._at > _BYTES_MAX:
                # What was written before the first look says nothing about now.
                self._at = size if self._at is None else max(0, size - _BYTES_MAX)
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(size - self._at)
        except OSError:
            return
        whole = data.rpartition(b"\n")[0]
        if not whole:
            return
        self._at += len(whole) + 1
        for line in whole.split(b"\n"):
            self.rows += 1
            self._take(row_of(line))

    def _take(self, row: dict[str, object]) -> None:
        kind = row.get("kind")
        if kind == "tool":
            self._named = str(row.get("name"))
            self._call = _digest([row.get("name"), row.get("input")])
        elif kind == "result" and self._call is not None:
            now = _digest([self._call, row.get("text"), row.get("error")])
            self.same = self.same + 1 if now == self._last else 1
            self._last, self._call = now, None
        elif kind == "turn":
            self._last, self.same = None, 0

    def begin_anew(self) -> None:
        """Count from zero: the agent was nudged."""
        self._last, self.same = None, 0

    @property
    def loop(self) -> str | None:
        """Return what the agent repeats, or None."""
        if self.same < LOOP_CALLS or self._named in _LOOKS:
            return None
        return f"it called {self._named} {self.same} times in a row with the same result"


def tree_sign(tree: Path) -> str | None:
    """Return a digest of everything in a worktree that git sees; None if git fails."""
    git = Git(tree, {"GIT_OPTIONAL_LOCKS": "0"})
    try:
        head = git("rev-parse", "HEAD", seconds=_GIT_S)
        changed = git.lines(
            "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", seconds=_GIT_S
        )
    except BullpenError:
        return None
    stats = []
    for line in changed:
        try:
            found = (tree / line[3:]).lstat()
        except (OSError, ValueError):
            stats.append(line)
        else:
            stats.append(f"{line} {found.st_size} {found.st_mtime_ns}")
    return _digest([head, stats])


def work_sign(repository: Path, base: str, commit: str) -> str | None:
    """Return a digest of the changes of handed-in work, whatever its base; None if git fails."""
    git = Git(repository)
    try:
        diff = git("diff", "--no-ext-diff", "--no-textconv", "-U0", base, commit, seconds=_GIT_S)
        found = git("patch-id", "--stable", given=f"{diff}\n", seconds=_GIT_S)
    except BullpenError:
        return None
    return found.partition(" ")[0] or None


def _digest(value: object) -> str:
    return hashlib.sha256(json_text.dumps_line(value)).hexdigest()
