"""Work that is tested together, and what the tests found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.protocol.task import Check, Merge, Task
from bullpen.team.promises.at_merge import Promised
from bullpen.team.promises.rules import Standing, is_over

DETAIL_CHARS_MAX = 6_000


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """The work of one task, rebased on the target and the entries before it."""

    task: Task
    record: Merge
    # The last commit with it, and the folder in which its checks run.
    tip: str
    inside: str
    # The last commit before it.
    base: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The commit of the forge's target on which some work has to pass.

    If not `anew`, it is enough that this work passed on any commit of the target.
    """

    onto: str
    anew: bool = False


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of testing a tip: the check that failed there, if any."""

    failed: Check | None
    # The task that has the check; None if it is the merge gate.
    of: Task | None = None
    # The promise that the check is about, if it is.
    promise: Standing | None = None

    @property
    def passed(self) -> bool:
        """Return whether everything passed."""
        return self.failed is None

    @property
    def words(self) -> str:
        """Return what failed, and its output."""
        if self.failed is None:
            return ""
        if self.promise is not None:
            relied = ", ".join(f"#{task.id}" for task in self.promise.relied_by)
            by = f" Relied on by {relied}." if relied else ""
            found = (self.failed.detail or "").strip()[-DETAIL_CHARS_MAX:]
            return f"It breaks {self.promise.named}.{by}\n{found}".strip()
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
    promise: Standing | None = None
    # For a review: the work that is reviewed, from one commit to another.
    work: tuple[str, str] | None = None

    def key(self) -> tuple[str | None, ...]:
        """Return what identifies a check, so that equal ones run once."""
        whose = None if self.task is None else self.task.owner
        check = self.check
        seconds = str(check.timeout_s)
        if self.promise is not None:
            made = self.promise.promise
            return (whose, self.inside, made.id, str(made.version), check.run, seconds)
        if self.work is not None:
            asked = (check.name, check.by, check.model, check.run, check.rubric)
            return (whose, *self.work, *asked, str(check.rounds), seconds)
        return (whose, self.inside, check.kind, check.run, check.path, seconds)

    @property
    def blames(self) -> Task | None:
        """Return the queued task that has the check; None if the target should pass it too."""
        return None if self.promise is not None and is_over(self.promise.task) else self.task

    def place(self, tree: Path) -> Path:
        """Return where it runs."""
        return tree / self.inside if self.inside else tree


def wanted(
    entries: Sequence[QueueEntry], gate: Sequence[Check], *, inside: str, promised: Promised
) -> list[AttemptWanted]:
    """Return all checks for the tip of some work: promises, those of each task, the merge gate.

    Reports, commits and the reviews of a task were checked when it was completed, and cannot have
    changed. Reviews of the gate come last and are about the work of each task.
    """
    asked = [
        AttemptWanted(_of_promise(each), each.task, inside, each)
        for each in promised.to_check({entry.task.id for entry in entries})
    ]
    asked += [
        AttemptWanted(check.stated, entry.task, entry.inside)
        for entry in entries
        for check in entry.task.facts.checks
        if check.kind in {"command", "file"}
    ]
    asked += [AttemptWanted(each.stated, None, inside) for each in gate if each.kind != "review"]
    asked += [
        AttemptWanted(check.stated, entry.task, entry.inside, work=(entry.base, entry.tip))
        for entry in entries
        for check in gate
        if check.kind == "review"
    ]
    return list({each.key(): each for each in asked}.values())


def _of_promise(standing: Standing) -> Check:
    promise = standing.promise
    return Check.new(name=f"promise {promise.id}", kind="command", run=promise.run)
