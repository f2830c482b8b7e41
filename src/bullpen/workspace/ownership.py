"""Who has changed which path in a tree that several share, and who may go on doing so.

A path belongs to whoever first writes it, as long as that agent holds the task it did so for, or
until its turn is over if it had none. After that anybody may write it, but whose edits they are
stays known until they are committed. Kept in one file for each tree of a team on this machine.
"""

from __future__ import annotations

import fnmatch
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bullpen.workspace.edits import Edit
from bullpen.workspace.shared_file import SharedFile

SETTLES_S = 30.0
"""So long after it was given to an agent, a path is not taken for unchanged: it is just written."""

_ROWS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Owner:
    """Who wrote a path last: the agent, the task it held, the launch, and when.

    `upon` are those whose edits were there and not committed when it did.
    """

    agent: str
    task: str | None
    nonce: str
    at: float
    upon: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: dict[str, Any]) -> Owner:
        """The owner as it is kept."""
        upon = tuple(map(str, row["upon"]))
        return cls(str(row["agent"]), row["task"], str(row["nonce"]), float(row["at"]), upon)

    def row(self) -> dict[str, Any]:
        """The owner to be kept."""
        return {
            "agent": self.agent,
            "task": self.task,
            "nonce": self.nonce,
            "at": self.at,
            "upon": list(self.upon),
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """A path that belongs to somebody else."""

    path: str
    owner: Owner


class Ownership:
    """The owners of the paths of one tree. It blocks: call it from a thread."""

    def __init__(self, folder: Path, top: str) -> None:
        mark = hashlib.sha256(top.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        # `+` is in no name of a member, whose folders lie here too.
        self._file = SharedFile(folder / f"+tree-{mark}.json")

    def rows(self) -> dict[str, Owner]:
        """Who wrote which path last."""
        return {path: Owner.of(row) for path, row in self._file.read().get("paths", {}).items()}

    def claim(
        self,
        paths: Sequence[str],
        owner: Owner,
        *,
        holds: Callable[[Owner], bool],
        changed: Callable[[Sequence[str]], set[str]],
        keep: bool = True,
    ) -> Taken | None:
        """Give paths to an agent, all of them, or none and say which belongs to somebody else.

        `holds` says whether an owner still is one, `changed` which of some paths differ from what
        is committed. Without `keep` it is only looked.
        """
        with self._file.changing() as kept:
            rows = kept.setdefault("paths", {})
            for path, row in _about(rows, paths):
                other = Owner.of(row)
                if other.agent == owner.agent or not holds(other):
                    continue
                if _is_settled(other) and not changed([path]):
                    continue
                return Taken(path, other)
            if keep:
                for path in paths:
                    upon = _under(rows.get(path), owner.agent)
                    upon = upon if upon and changed([path]) else ()
                    rows[path] = replace(owner, upon=upon).row()
                if len(rows) > _ROWS_MAX:
                    still = changed(list(rows))
                    kept["paths"] = {
                        path: row
                        for path, row in rows.items()
                        if path in still or holds(Owner.of(row))
                    }
        return None

    def forget_turns(self, agent: str) -> None:
        """End what an agent owns without a task: its turn is over."""
        with self._file.changing() as kept:
            for row in kept.get("paths", {}).values():
                if row["agent"] == agent and row["task"] is None:
                    row["nonce"] = ""

    def kept_at(self, state: str) -> str | None:
        """The ref that keeps the edits of this state, if they were kept already."""
        kept = self._file.read().get("kept")
        return str(kept["ref"]) if kept is not None and kept["state"] == state else None

    def note_kept(self, state: str, ref: str) -> None:
        """Remember that the edits of this state are kept."""
        with self._file.changing() as kept:
            kept["kept"] = {"state": state, "ref": ref}


def now() -> float:
    """The time as it is kept."""
    return time.time()


def _is_settled(owner: Owner) -> bool:
    return not 0 <= now() - owner.at < SETTLES_S


def _under(row: dict[str, Any] | None, agent: str) -> tuple[str, ...]:
    """The others whose edits an agent writes upon."""
    if row is None:
        return ()
    before = Owner.of(row)
    return tuple(name for name in dict.fromkeys([*before.upon, before.agent]) if name != agent)


def _about(
    rows: dict[str, dict[str, Any]], paths: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of these paths, and of what lies below them."""
    for path in paths:
        if path in rows:
            yield path, rows[path]
    for path, row in rows.items():
        if any(path.startswith(f"{each}/") or each == "" for each in paths):
            yield path, row


def matching(paths: Iterable[str], wanted: Sequence[str] | None) -> Iterator[str]:
    """Those of some paths that one of the wanted ones names, is above of, or is a pattern for."""
    for path in paths:
        if wanted is None or any(_names(each, path) for each in wanted):
            yield path


def _names(wanted: str, path: str) -> bool:
    if wanted in {"", path} or path.startswith(f"{wanted}/"):
        return True
    if any(char in wanted for char in "*?["):
        return fnmatch.fnmatchcase(path, wanted) or fnmatch.fnmatchcase(path, f"{wanted}/*")
    return False


def state_of(top: str, found: Sequence[Edit], head: str) -> str:
    """What tells the edits of a tree from those of another moment."""
    digest = hashlib.sha256(head.encode())
    for edit in sorted(found, key=lambda each: each.path):
        digest.update(f"\0{edit.path}\0{edit.index}{edit.tree}".encode("utf-8", "surrogateescape"))
        try:
            about = (Path(top) / edit.path).lstat()
        except OSError:
            continue
        digest.update(f"{about.st_mtime_ns} {about.st_size} {about.st_ino}".encode())
    return digest.hexdigest()
