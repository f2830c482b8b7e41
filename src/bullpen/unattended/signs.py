"""Signs of life in what an agent leaves behind: its transcript and its tree."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bullpen.agents.transcript import row_of
from bullpen.errors import BullpenError
from bullpen.protocol import jsontext
from bullpen.workspace.git import Git

LOOP_CALLS = 12
"""So often in a row the same call with the same result is no work any more."""

_BYTES_MAX = 4_000_000
_GIT_S = 30.0
# These look whether something has ended, and may have to look often.
_LOOKS = ("BashOutput",)


class Trail:
    """The transcript of one agent as it grows: how long it is, and whether it goes in circles."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at: int | None = None
        self._call: str | None = None
        self._last: str | None = None
        self._named = ""
        self.same = 0
        self.rows = 0

    def follow(self) -> None:
        """Read on. What cannot be read has not grown."""
        try:
            size = self._path.stat().st_size
            if self._at is None or size < self._at or size - self._at > _BYTES_MAX:
                # What was before one began to look says nothing about now.
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
        """Count from here: it was told."""
        self._last, self.same = None, 0

    @property
    def loop(self) -> str | None:
        """What it does again and again, in words, if it does."""
        if self.same < LOOP_CALLS or self._named in _LOOKS:
            return None
        return f"it called {self._named} {self.same} times in a row with the same result"


def tree_sign(tree: Path) -> str | None:
    """What changes when anything in a tree does that git would see; None if it cannot be told."""
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
    """What tells the contents of handed-in work from others, whatever they stand on."""
    git = Git(repository)
    try:
        diff = git("diff", "--no-ext-diff", "--no-textconv", "-U0", base, commit, seconds=_GIT_S)
        found = git("patch-id", "--stable", given=f"{diff}\n", seconds=_GIT_S)
    except BullpenError:
        return None
    return found.partition(" ")[0] or None


def _digest(value: object) -> str:
    return hashlib.sha256(jsontext.dumps_line(value)).hexdigest()
