"""Rules for who may have or complete a task: skills, given-up tasks, plan mode. Pure."""

from __future__ import annotations

from bullpen.errors import Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.team.lookup import refuse_unknown


def lacking(task: Task, member: Member | None) -> list[str]:
    """Return the skills that a task needs and a member lacks, as far as known."""
    needs = task.facts.needs or ()
    agent = member.agent if needs and member is not None else None
    skills = (agent.spec.skills if agent is not None else None) or ()
    return [need for need in needs if need not in skills]


def refuse_unfit(team: TeamConfig, task: Task, by: str) -> None:
    """Refuse a task to a member that may not have it.

    Raises Refused (unknown_status, given_up, not_capable).
    """
    refuse_unknown(task)
    given_up = task.facts.given_up
    if given_up is not None:
        raise Refused(
            f"Task {task.id!r} was given up: {given_up}.",
            reason="given_up",
            remedy="To try again, run: bullpen task retry ID",
        )
    refuse_incapable(team, task, by)


def refuse_incapable(team: TeamConfig, task: Task, name: str) -> None:
    """Refuse a task to a member that lacks a skill. Raises Refused (not_capable)."""
    lacks = lacking(task, team.member(name))
    if lacks:
        raise Refused(
            f"Task {task.id!r} needs {', '.join(map(repr, lacks))}, and {name!r} lacks it.",
            reason="not_capable",
            remedy="Take another task, or leave it to a member with that skill.",
        )


def refuse_planning(team: TeamConfig, by: str, voice: Voice) -> None:
    """Refuse an agent in plan mode: it completes nothing and has no check run.

    A person who acts in its name is not refused. Raises Refused (plan_mode).
    """
    member = team.member(by) if voice != "human" else None
    agent = None if member is None else member.agent
    if agent is not None and agent.mode == "plan":
        raise Refused(
            f"{by!r} is in plan mode: it completes no task and runs no checks.",
            reason="plan_mode",
            remedy="Submit a plan with ExitPlanMode, and complete the task when it is approved.",
        )
