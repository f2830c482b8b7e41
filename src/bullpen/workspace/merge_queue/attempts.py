"""Work that is tested together, and what the tests found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.protocol.task import Check, Merge, Task

DETAIL_CHARS_MAX = 6_000


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """The work of one task, rebased on the target and the entries before it."""

    task: Task
    record: Merge
    # The last commit with it, and the folder in which its checks run.
    tip: str
    inside: str


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of testing a tip: the check that failed there, if any."""

    failed: Check | None
    # The task that has the check; None if it is the merge gate.
    of: Task | None = None

    @property
    def passed(self) -> bool:
        """Return whether everything passed."""
        return self.failed is None

    @property
    def words(self) -> str:
        """Return what failed, and its output."""
        if self.failed is None:
            return ""
        what = self.failed.run or self.failed.path or ""
        named = (
            self.failed.name if what in {"", self.failed.name} else f"{self.failed.name}: {what}"
        )
        whose = "of the gate" if self.of is None else f"of task #{self.of.id}"
        detail = (self.failed.detail or "").strip()
        return f"The check {whose} fails ({named}).\n{detail[-DETAIL_CHARS_MAX:]}".strip()


@dataclass(frozen=True, slots=True)
class AttemptWanted:
    """A check that must pass, and for which task."""

    check: Check
    task: Task | None
    inside: str

    def key(self) -> tuple[str | None, ...]:
        """Return what identifies a check, so that equal ones run once."""
        whose = None if self.task is None else self.task.owner
        check = self.check
        return (whose, self.inside, check.kind, check.run, check.path, str(check.timeout_s))

    def place(self, tree: Path) -> Path:
        """Return where it runs."""
        return tree / self.inside if self.inside else tree


def wanted(
    entries: Sequence[QueueEntry], gate: Sequence[Check], *, inside: str
) -> list[AttemptWanted]:
    """Return all checks for the tip of some work: those of each task, and the merge gate.

    Reports and commits were checked when the task was completed, and cannot have changed.
    """
    asked = [
        AttemptWanted(check.stated, entry.task, entry.inside)
        for entry in entries
        for check in entry.task.facts.checks
        if check.kind in {"command", "file"}
    ]
    asked += [AttemptWanted(check.stated, None, inside) for check in gate]
    return list({each.key(): each for each in asked}.values())
