"""Decides whether a team's run has ended, and how. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.runs.watch.restarts import Prospect
from bullpen.team.agents.verdict import given_up, open_tasks
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.tasks.rules import ready

HELD_S = 600.0
"""How long a blocked merge is waited for when nothing else is left to do."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """Why the merge queue is blocked, if it is, since when, and whether only a person can help."""

    trouble: str | None = None
    since_s: float = 0.0
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class EndVerdict:
    """That a run is over, and why if not everything was done."""

    # `time`: the time is up. `led`: the lead has ended, and its result decides.
    # `person`: a person ended the run.
    status: Literal["done", "failed", "unfinished", "time", "led", "person"]
    cause: str | None = None


def all_done(tasks: Sequence[Task]) -> EndVerdict | None:
    """Return the end of a team whose tasks are all done or given up; None while one is open."""
    if open_tasks(tasks):
        return None
    left = given_up(tasks)
    if not left:
        return EndVerdict("done")
    named = ", ".join(f"#{task.id}" for task in left[:20])
    many = f"{len(left)} tasks were" if len(left) > 1 else "A task was"
    return EndVerdict("unfinished", f"{many} given up: {named}.")


def at_a_standstill(
    tasks: Sequence[Task],
    agents: Mapping[str, AgentFacts],
    prospects: Mapping[str, Prospect],
    queue: QueueState,
    now_s: float,
) -> EndVerdict | None:
    """Return the end of a team that can make no more progress; None while it can."""
    left = open_tasks(tasks)
    waiting = _for_a_merge(left)
    to_do = [task for task in left if task.id not in waiting]
    nobody = all(prospect == "never" for prospect in prospects.values())
    if not to_do and left and queue.trouble is not None:
        queued = sum(map(is_queued, left))
        waits = f"{_tasks(queued, 'waits', 'wait')} to be merged: {queue.trouble}"
        if queue.for_good:
            return EndVerdict("failed", waits)
        if now_s - queue.since_s >= HELD_S:
            return EndVerdict("unfinished", waits)
    # Work that was handed in is merged first: that uses nobody's budget.
    merging = len(to_do) < len(left) and queue.trouble is None
    if to_do and nobody and not merging:
        return _nobody_left(agents, len(to_do))
    return None


def _for_a_merge(left: Sequence[Task]) -> set[str]:
    """Return the tasks that wait to be merged, and those that can only begin after them."""
    waiting = {task.id for task in left if is_queued(task)}
    while True:
        pending = (task for task in left if task.status == "pending")
        more = {task.id for task in pending if waiting & set(task.blocked_by)} - waiting
        if not more:
            return waiting
        waiting |= more


def _nobody_left(agents: Mapping[str, AgentFacts], left: int) -> EndVerdict:
    """Return the end of a team that has open tasks but no running agent."""
    limits = [agent for agent in agents.values() if agent.at_limit is not None]
    if limits:
        return EndVerdict("unfinished", limits[0].cause or "A limit was reached.")
    ends = sorted(f"{name} {agent.end}: {agent.cause}" for name, agent in agents.items())
    broke = [agent for agent in agents.values() if agent.end in ("failed", "lost")]
    why = "; ".join(ends[:5]) or "the team has no teammates"
    words = f"No agent is running, and {_tasks(left, 'is', 'are')} open ({why})."
    return EndVerdict("failed" if broke or not agents else "unfinished", words)


def _tasks(number: int, one: str, many: str) -> str:
    return f"1 task {one}" if number == 1 else f"{number} tasks {many}"


def is_idle(config: TeamConfig, tasks: Sequence[Task], *, lead_waits: bool = False) -> bool:
    """Return whether no agent works or can claim a task, and nothing waits to be merged.

    With `lead_waits`, the lead waits for a person's words: its own tasks do not keep it busy.
    """
    busy = {(task.owner or "").partition("@")[0] for task in tasks if task.status == "in_progress"}
    agents = [(member, member.agent) for member in config.roster if member.agent is not None]
    running = [(member, agent) for member, agent in agents if agent.phase == "running"]
    at_work = any(agent.phase == "starting" for _, agent in agents) or any(
        member.is_active or (member.name in busy and not (lead_waits and member.is_lead))
        for member, _ in running
    )
    by_id = {task.id: task for task in tasks}
    claimable = any(agent.spec.claims for _, agent in running) and any(
        True for _ in ready(by_id, team=config.name)
    )
    return not (at_work or claimable or any(is_queued(task) for task in tasks))
