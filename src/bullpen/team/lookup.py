"""Finds members and tasks by name. If there is none, the error lists similar names. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.protocol import names
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import View

Find = Callable[[str], Task | None]
"""Returns a task by its id."""

_COMPARED_MAX = 64


def listed(names: Iterable[str], *, shown_max: int = 8) -> str:
    """Return the first of these names, and how many more there are."""
    there = list(names)
    more = len(there) - shown_max
    return ", ".join(there[:shown_max]) + (f" and {more} more" if more > 0 else "")


def among(wanted: str, known: Iterable[str], *, what: str) -> str:
    """Return a short remedy for an unknown name: the most similar names, and some of all names."""
    there = list(known)
    if not there:
        return f"There are no {what} yet."
    near = difflib.get_close_matches(wanted[:_COMPARED_MAX], there, n=3)
    guess = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{guess}Available {what}: {listed(there)}."


def member_of(team: TeamConfig, name: str) -> Member:
    """Return the member with that name. Raises NotFound with the names there are."""
    member = team.member(name)
    if member is None:
        raise no_member(name, team.name, (member.name for member in team.roster))
    return member


def no_member(name: str, team: str, known: Iterable[str]) -> NotFound:
    """The error for a member that does not exist."""
    return NotFound(
        f"Team {team!r} has no member {name!r}.", remedy=among(name, known, what="members")
    )


def color_of(team: TeamConfig, name: str) -> str | None:
    """The color of a member, if there is such a member and it has one."""
    member = team.member(name)
    return member.color if member else None


def find(view: View, task_id: str) -> Task | None:
    """Return a task, or None if it is missing. Raises Unreadable if its file is damaged.

    Ids also come from other programs' files. A text that cannot be an id means no task.
    """
    try:
        names.check_task_id(task_id)
    except Invalid:
        return None
    return view.task(task_id)


def forgiving(view: View) -> Find:
    """Return a `Find` that treats an unreadable task as missing."""

    def find_readable(task_id: str) -> Task | None:
        try:
            return find(view, task_id)
        except Unreadable:
            return None

    return find_readable


def task_of(view: View, task_id: str) -> Task:
    """Return the task with that id, to change it. Raises NotFound with some of the ids there are.

    A task whose status this version does not know cannot be changed: Refused (unknown_status).
    """
    task = find(view, task_id)
    if task is None:
        raise no_task(task_id, view.team.name, view.tasks())
    refuse_unknown(task)
    return task


def refuse_unknown(task: Task) -> None:
    """Refuse to change a task whose status comes from a newer version."""
    if task.status == "unknown":
        raise Refused(
            f"Task {task.id!r} has the status {task.raw['status']!r}, which this version of "
            "Bullpen does not know.",
            reason="unknown_status",
            remedy="Upgrade Bullpen to change this task.",
        )


def no_task(task_id: str, team: str, known: Iterable[str]) -> NotFound:
    """The error for a task that does not exist."""
    return NotFound(
        f"Team {team!r} has no task {task_id!r}.",
        remedy=among(task_id, known, what="tasks"),
    )


def leads(team: TeamConfig, name: str) -> bool:
    """Return whether that name is the lead's."""
    member = team.member(name)
    return name == names.LEAD or (member is not None and member.is_lead)


def owner_of(task: Task, team: str) -> str | None:
    """Return the name of a task's owner. Other programs also write the agent id `name@team`."""
    return task.owner.removesuffix(f"@{team}") if task.owner else None


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, in which team, and whether it is the lead."""

    name: str
    team: str
    lead: bool

    @classmethod
    def of(cls, team: TeamConfig, name: str) -> Actor:
        """Return the actor with that name, who need not be a member."""
        return cls(name, team.name, leads(team, name))

    def owns(self, task: Task) -> bool:
        """Return whether this actor owns a task."""
        return owner_of(task, self.team) == self.name


def in_hand(view: View, name: str, task_id: str | None) -> Task | None:
    """Return the task if the agent has it in progress."""
    task = forgiving(view)(task_id) if task_id is not None else None
    if task is None or task.status != "in_progress":
        return None
    return task if owner_of(task, view.team.name) == name else None
