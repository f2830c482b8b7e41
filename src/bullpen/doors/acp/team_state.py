"""The tasks of a team as a plan and as calls of its members, and whether the team rests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.doors.acp.updates import CallStatus, CallTold, PlanStep
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.runs.watch.ending import is_idle
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks.check_rules import is_done
from bullpen.view.text import one_line


def plan_of(tasks: Iterable[Task]) -> tuple[PlanStep, ...]:
    """The task list as the steps of a plan."""
    return tuple(_step(task) for task in tasks if not task.is_internal)


def _step(task: Task) -> PlanStep:
    given_up = " (given up)" if task.facts.given_up is not None else ""
    text = f"#{task.id} {one_line(task.subject)}{given_up}"
    if is_done(task):
        return PlanStep(text, "completed")
    # Work that waits to be merged is not done.
    return PlanStep(text, "pending" if task.status == "pending" else "in_progress")


def work_of_teammates(
    tasks: Iterable[Task], known: dict[str, tuple[str, str]]
) -> Iterable[CallTold]:
    """The tasks of teammates as calls: one for each, told again when it changes.

    `known` is what was told so far: the owner and the status of each task.
    """
    for task in tasks:
        owner = (task.owner or "").partition("@")[0]
        status = _status(task)
        before = known.get(task.id)
        if task.is_internal or owner == LEAD or (before is None and (not owner or not status)):
            continue
        status = status or "pending"
        if before == (owner, status):
            continue
        known[task.id] = owner, status
        whose = f"{owner}: " if owner else ""
        yield CallTold(
            f"task-{task.id}",
            before is None,
            status,
            title=f"{whose}#{task.id} {one_line(task.subject)}",
            kind="other",
        )


def _status(task: Task) -> CallStatus | None:
    if task.facts.given_up is not None:
        return "failed"
    if is_done(task):
        return "completed"
    return None if task.status == "pending" else "in_progress"


def rests(snapshot: Snapshot, agents: Sequence[AgentView]) -> bool:
    """Whether the lead has answered everything, and nobody in the team has anything to do."""
    lead = next((view.member for view in snapshot.members if view.member.is_lead), None)
    if lead is None or lead.agent is None or lead.agent.phase != "running":
        return False
    if snapshot.pending or not is_idle(snapshot.team, snapshot.tasks, lead_waits=True):
        return False
    running = {
        view.member.name
        for view in snapshot.members
        if view.member.agent is not None and view.member.agent.phase == "running"
    }
    if any(view.unread for view in snapshot.members if view.member.name in running):
        return False
    return all(view.state == "idle" for view in agents if view.name in running)
