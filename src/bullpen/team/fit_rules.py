"""Who may have which task: what it needs, and whether it was given up. Pure."""

from __future__ import annotations

from bullpen.errors import Refused
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task


def lacking(task: Task, member: Member | None) -> list[str]:
    """What a task needs that a member cannot do, as far as is known of it."""
    needs = task.facts.needs or ()
    agent = member.agent if needs and member is not None else None
    skills = (agent.asked.skills if agent is not None else None) or ()
    return [need for need in needs if need not in skills]


def refuse_unfit(team: TeamConfig, task: Task, by: str) -> None:
    """Refuse a task to a member that is not to have it.

    Raises:
        Refused: given_up or not_capable.
    """
    given_up = task.facts.given_up
    if given_up is not None:
        raise Refused(
            f"Task {task.id!r} was given up: {given_up}.",
            reason="given_up",
            remedy="Somebody has to decide that it is tried again: bullpen task retry ID",
        )
    refuse_incapable(team, task, by)


def refuse_incapable(team: TeamConfig, task: Task, name: str) -> None:
    """Refuse a task to a member that cannot do what it needs.

    Raises:
        Refused: not_capable.
    """
    lacks = lacking(task, team.member(name))
    if lacks:
        raise Refused(
            f"Task {task.id!r} needs {', '.join(map(repr, lacks))}, which {name!r} does not have.",
            reason="not_capable",
            remedy="Leave it to a member that has it, or take another task.",
        )
