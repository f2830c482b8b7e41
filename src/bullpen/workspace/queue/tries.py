"""What is tried together: work laid one upon the other, and what was found with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.protocol.merge import Merge
from bullpen.protocol.task import Check, Task

DETAIL_CHARS_MAX = 6_000


@dataclass(frozen=True, slots=True)
class Entry:
    """The work of one task on the target, behind the work of those before it."""

    task: Task
    record: Merge
    # The last commit with it, and where below the top its checks are made.
    tip: str
    inside: str


@dataclass(frozen=True, slots=True)
class Found:
    """What was found on a tip: nothing, or the check that failed there."""

    failed: Check | None
    # The task that asked for it; None if it is of the gate.
    of: Task | None = None

    @property
    def passed(self) -> bool:
        """Whether everything held."""
        return self.failed is None

    @property
    def words(self) -> str:
        """What failed, and what it said."""
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
class Wanted:
    """A check that has to hold, and for whom."""

    check: Check
    task: Task | None
    inside: str

    def key(self) -> tuple[str | None, ...]:
        """What makes it the same as another: then it is run once for both."""
        whose = None if self.task is None else self.task.owner
        check = self.check
        return (whose, self.inside, check.kind, check.run, check.path, str(check.timeout_s))

    def place(self, tree: Path) -> Path:
        """Where it is looked for."""
        return tree / self.inside if self.inside else tree


def wanted(entries: Sequence[Entry], gate: Sequence[Check], *, inside: str) -> list[Wanted]:
    """All that has to hold on the tip of some work: what proves each task done, and the gate.

    A report and a commit were looked for when the task was completed; nothing has changed them.
    """
    asked = [
        Wanted(check.stated, entry.task, entry.inside)
        for entry in entries
        for check in entry.task.facts.all_checks
        if check.kind in {"command", "file"}
    ]
    asked += [Wanted(check.stated, None, inside) for check in gate]
    return list({each.key(): each for each in asked}.values())
