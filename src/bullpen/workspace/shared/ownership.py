"""Records which agent owns which path in a shared checkout.

A path belongs to the agent that writes it first, as long as the agent has the task that it wrote it
for, or until its turn ends if it had no task. After that, any agent may write the path, but the
author of the edits stays known until they are committed. Each checkout of a team has one file.
"""

from __future__ import annotations

import fnmatch
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bullpen.workspace.shared.edits import UncommittedEdit
from bullpen.workspace.shared.locked_json import SharedFile

SETTLES_S = 30.0
"""How long a claimed path is not taken for unchanged: its agent is about to write it."""

_ROWS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Owner:
    """Who wrote a path last: the agent, its task, its launch, and when.

    `upon` names the agents whose uncommitted edits it wrote over.
    """

    agent: str
    task: str | None
    nonce: str
    at: float
    upon: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: dict[str, Any]) -> Owner:
        """Return the owner of a stored row."""
        return cls(**{**row, "upon": tuple(row["upon"])})


@dataclass(frozen=True, slots=True)
class PathTaken:
    """A path that belongs to another agent."""

    path: str
    owner: Owner


class Ownership:
    """The owners of the paths of one checkout. It blocks: call it from a thread."""

    def __init__(self, folder: Path, top: str) -> None:
        mark = hashlib.sha256(top.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        # The folders of members are here too; `+` is in no member's name.
        self._file = SharedFile(folder / f"+tree-{mark}.json")

    def rows(self) -> dict[str, Owner]:
        """Return who wrote each path last."""
        return {path: Owner.of(row) for path, row in self._file.read().get("paths", {}).items()}

    def claim(
        self,
        paths: Sequence[str],
        owner: Owner,
        *,
        holds: Callable[[Owner], bool],
        changed: Callable[[Sequence[str]], set[str]],
        keep: bool = True,
    ) -> PathTaken | None:
        """Give all these paths to an agent, or none. Returns one that another agent owns.

        `holds` says whether an owner still owns its paths, and `changed` which of some paths have
        uncommitted changes. Without `keep`, nothing is recorded.
        """
        with self._file.changing() as kept:
            rows = kept.setdefault("paths", {})
            for path, row in _about(rows, paths):
                other = Owner.of(row)
                if other.agent == owner.agent or not holds(other):
                    continue
                if _is_settled(other) and not changed([path]):
                    continue
                return PathTaken(path, other)
            if keep:
                for path in paths:
                    upon = _under(rows.get(path), owner.agent)
                    upon = upon if upon and changed([path]) else ()
                    rows[path] = asdict(replace(owner, upon=upon))
                if len(rows) > _ROWS_MAX:
                    still = changed(list(rows))
                    kept["paths"] = {
                        path: row
                        for path, row in rows.items()
                        if path in still or holds(Owner.of(row))
                    }
        return None

    def forget_turns(self, agent: str) -> None:
        """Release what an agent owns without a task: its turn is over."""
        with self._file.changing() as kept:
            for row in kept.get("paths", {}).values():
                if row["agent"] == agent and row["task"] is None:
                    row["nonce"] = ""

    def kept_at(self, state: str) -> str | None:
        """Return the ref that has the edits of this state, if they were saved already."""
        kept = self._file.read().get("kept")
        return str(kept["ref"]) if kept is not None and kept["state"] == state else None

    def note_kept(self, state: str, ref: str) -> None:
        """Record that the edits of this state are saved."""
        with self._file.changing() as kept:
            kept["kept"] = {"state": state, "ref": ref}


def now() -> float:
    """Return the time as it is recorded."""
    return time.time()


def _is_settled(owner: Owner) -> bool:
    return not 0 <= now() - owner.at < SETTLES_S


def _under(row: dict[str, Any] | None, agent: str) -> tuple[str, ...]:
    """Return the other agents whose edits an agent writes over."""
    if row is None:
        return ()
    before = Owner.of(row)
    return tuple(name for name in dict.fromkeys([*before.upon, before.agent]) if name != agent)


def _about(
    rows: dict[str, dict[str, Any]], paths: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of these paths, and of everything below them."""
    for path in paths:
        if path in rows:
            yield path, rows[path]
    for path, row in rows.items():
        if any(path.startswith(f"{each}/") or each == "" for each in paths):
            yield path, row


def matching(paths: Iterable[str], wanted: Sequence[str] | None) -> Iterator[str]:
    """Yield the paths that a wanted one names, contains, or matches as a pattern."""
    for path in paths:
        if wanted is None or any(_names(each, path) for each in wanted):
            yield path


def _names(wanted: str, path: str) -> bool:
    if wanted in {"", path} or path.startswith(f"{wanted}/"):
        return True
    if any(char in wanted for char in "*?["):
        return fnmatch.fnmatchcase(path, wanted) or fnmatch.fnmatchcase(path, f"{wanted}/*")
    return False


def state_of(top: str, found: Sequence[UncommittedEdit], head: str) -> str:
    """Return a digest of the edits of a checkout at this moment."""
    digest = hashlib.sha256(head.encode())
    for edit in sorted(found, key=lambda each: each.path):
        digest.update(f"\0{edit.path}\0{edit.index}{edit.tree}".encode("utf-8", "surrogateescape"))
        try:
            about = (Path(top) / edit.path).lstat()
        except OSError:
            continue
        digest.update(f"{about.st_mtime_ns} {about.st_size} {about.st_ino}".encode())
    return digest.hexdigest()
