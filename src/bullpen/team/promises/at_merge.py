"""What promises mean for work that is handed in or merged: its order and what is checked. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bullpen.errors import Refused, Unreadable
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.promises.path_patterns import covers
from bullpen.team.promises.rules import (
    Standing,
    awaited,
    is_over,
    promises_of,
    standing_for,
    void,
)

_FILES_SHOWN = 8


class Changed(Protocol):
    """A path that work changes."""

    @property
    def path(self) -> str:
        """The path, from the top of the repository."""


@dataclass(frozen=True, slots=True)
class Promised:
    """The promises of a team at one moment, for whoever hands in or merges work."""

    team: str = ""
    tasks: Mapping[str, Task] = field(default_factory=dict)

    def in_order(self, line: Sequence[Task]) -> tuple[list[Task], list[str]]:
        """Return the queued tasks in the order in which they can be merged, and what waits.

        A task that builds on promised work comes after it, whoever handed in first.
        """
        ready: list[Task] = []
        left = list(line)
        while left:
            there = {task.id for task in ready}
            after = next((task for task in left if not self.waits_for(task, there)), None)
            if after is None:
                break
            ready.append(after)
            left.remove(after)
        return ready, [
            f"#{task.id} builds on promised work of {_numbers(self.waits_for(task, ()))}, which "
            "is not merged yet"
            for task in left
        ]

    def waits_for(self, task: Task, there: Collection[str]) -> list[str]:
        """Return the tasks whose promised work has to be merged before a task, but these."""
        return [task_id for task_id in awaited(task, self.tasks) if task_id not in there]

    def refusal(self, task: Task, changes: Iterable[Changed]) -> str | None:
        """Return why the work of a task cannot be merged whatever its checks find, if it cannot.

        It relies on what no longer holds, or it changes paths that another member keeps to itself.
        """
        try:
            gone = void(task, self.tasks)
            promises_of(task)
        except Unreadable as error:
            return str(error)
        if gone:
            return f"It relies on promises that no longer hold: {'; '.join(gone)}."
        found = self.touched(task, changes, since=task.facts.claimed_ms)
        return None if not found else f"{'. '.join(found)}."

    def touched(
        self, task: Task, changes: Iterable[Changed], *, since: int | None = None
    ) -> list[str]:
        """Return the promised paths of other members that changes of a task touch, in words.

        With `since`, those of work that was merged after that time count too.
        """
        owner = owner_of(task, self.team)
        paths = list(dict.fromkeys(change.path for change in changes))
        found = []
        for each in standing_for(self.tasks, self.team, since_ms=since):
            if each.promise.kind != "path" or each.task.id == task.id:
                continue
            if owner is not None and each.owner == owner:
                continue
            files = [path for path in paths if covers(each.promise.path or "", path)]
            if files:
                found.append(f"It changes {_listed(files)}, against {each.named}")
        return found

    def to_check(self, tasks: Collection[str]) -> list[Standing]:
        """Return the promises that must hold once these tasks are on the target.

        Those of the tasks themselves, and those of earlier work that others still build on, or that
        was merged while one of these tasks was worked on.
        """
        claimed = [self.tasks[task_id].facts.claimed_ms for task_id in tasks]
        since = min((each for each in claimed if each is not None), default=None)
        return [
            each
            for each in standing_for(self.tasks, self.team, since_ms=since)
            if each.promise.kind != "path" and (each.task.id in tasks or is_over(each.task))
        ]


class PromisesBroken(Refused):
    """Work that breaks promises of its own task. `found` says what is wrong, by id."""

    def __init__(self, task_id: str, found: Mapping[str, str]) -> None:
        said = "\n\n".join(f"Promise {key}: {text}" for key, text in found.items())
        super().__init__(
            f"Task {task_id!r} is not done: its work breaks what it promised.\n\n{said}\n\n"
            "The task stays open.",
            reason="promise_broken",
            remedy="Keep the promise, or change or withdraw it: those who rely on it are told. "
            "Then complete the task again.",
        )
        self.found = found


def refuse_touched(task: Task, promised: Promised, changes: Iterable[Changed]) -> None:
    """Refuse to hand in changes to paths that another member keeps to itself.

    Raises:
        Refused: promised_path.
    """
    found = promised.touched(task, changes)
    if found:
        raise Refused(
            f"Task {task.id!r} is not done. {'. '.join(found)}.",
            reason="promised_path",
            remedy="Undo these changes, or ask that member to change or withdraw the promise. Then "
            "complete the task again.",
        )


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _FILES_SHOWN
    return ", ".join(paths[:_FILES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _numbers(ids: Iterable[str]) -> str:
    return ", ".join(f"#{task_id}" for task_id in ids)
