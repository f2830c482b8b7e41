"""Finding members and tasks by name, and saying which there are when there is none. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bullpen.errors import Invalid, NotFound, Unreadable
from bullpen.protocol import names
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import View

Find = Callable[[str], Task | None]
"""A task by its id."""

_SHOWN_MAX = 8
_COMPARED_MAX = 64


def among(wanted: str, known: Iterable[str], *, what: str) -> str:
    """A short remedy for a name that does not exist: the nearest ones, and some of all."""
    there = list(known)
    if not there:
        return f"There are no {what} yet."
    near = difflib.get_close_matches(wanted[:_COMPARED_MAX], there, n=3)
    guess = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    more = f" and {len(there) - _SHOWN_MAX} more" if len(there) > _SHOWN_MAX else ""
    return f"{guess}There are these {what}: {', '.join(there[:_SHOWN_MAX])}{more}."


def member_of(team: TeamConfig, name: str) -> Member:
    """The member of that name. Raises NotFound, naming those there are."""
    member = team.member(name)
    if member is None:
        raise NotFound(
            f"There is no member {name!r} in team {team.name!r}.",
            remedy=among(name, (member.name for member in team.roster), what="members"),
        )
    return member


def find(view: View, task_id: str) -> Task | None:
    """A task that may be missing. Raises Unreadable if it is there but cannot be read.

    Ids come from other programs' files too; one that cannot be a task's id names no task.
    """
    try:
        names.check_task_id(task_id)
    except Invalid:
        return None
    return view.task(task_id)


def forgiving(view: View) -> Find:
    """A `Find` for which a task that cannot be read is missing."""

    def find_readable(task_id: str) -> Task | None:
        try:
            return find(view, task_id)
        except Unreadable:
            return None

    return find_readable


def task_of(view: View, task_id: str) -> Task:
    """The task of that id. Raises NotFound, naming some there are."""
    task = find(view, task_id)
    if task is None:
        raise no_task(task_id, view.team.name, view.tasks())
    return task


def no_task(task_id: str, team: str, known: Iterable[str]) -> NotFound:
    """The error for a task that does not exist."""
    return NotFound(
        f"There is no task {task_id!r} in team {team!r}.",
        remedy=among(task_id, known, what="tasks"),
    )


def leads(team: TeamConfig, name: str) -> bool:
    """Whether that name is the lead's."""
    member = team.member(name)
    return name == names.LEAD or (member is not None and member.is_lead)


def owner_of(task: Task, team: str) -> str | None:
    """The name of a task's owner; other programs also write the agent id `name@team`."""
    return task.owner.removesuffix(f"@{team}") if task.owner else None


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, in which team, and whether as its lead."""

    name: str
    team: str
    lead: bool

    @classmethod
    def of(cls, team: TeamConfig, name: str) -> Actor:
        """The actor of that name, who need not be a member."""
        return cls(name, team.name, leads(team, name))

    def owns(self, task: Task) -> bool:
        """Whether a task is this actor's."""
        return owner_of(task, self.team) == self.name


def in_hand(view: View, name: str, task_id: str | None) -> Task | None:
    """The task, if the agent has it in progress."""
    task = forgiving(view)(task_id) if task_id is not None else None
    if task is None or task.status != "in_progress":
        return None
    return task if owner_of(task, view.team.name) == name else None
