"""Whether a team is at its end, and how that is to be called. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.team.check_rules import is_done, is_queued
from bullpen.team.rules import ready
from bullpen.unattended.outcome import Status
from bullpen.unattended.restarts import Prospect

HELD_S = 600.0
"""So long what is in the way of a merge may stay there when nothing else is left to do."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The merge queue as far as an end depends on it: why it stands still, and since when."""

    trouble: str | None = None
    since_s: float = 0.0
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """That a team is at its end: what came of it, and why if not all was done."""

    # `time` is the clock's word, and `led` says that the lead has ended: by its word it is judged.
    status: Status | Literal["time", "led"]
    cause: str | None = None


def open_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that somebody still has to do, or whose work is not merged yet."""
    return [
        task
        for task in tasks
        if not task.is_internal and not is_done(task) and task.facts.given_up is None
    ]


def all_done(tasks: Sequence[Task]) -> Verdict | None:
    """The end of a team whose tasks are all done or given up; None while one is open."""
    if open_tasks(tasks):
        return None
    given_up = [task for task in tasks if not is_done(task) and task.facts.given_up is not None]
    if not given_up:
        return Verdict("done")
    named = ", ".join(f"#{task.id}" for task in given_up[:20])
    many = f"{len(given_up)} tasks were" if len(given_up) > 1 else "A task was"
    return Verdict("unfinished", f"{many} given up: {named}.")


def at_a_standstill(
    tasks: Sequence[Task],
    agents: Mapping[str, AgentFacts],
    prospects: Mapping[str, Prospect],
    queue: QueueState,
    now_s: float,
) -> Verdict | None:
    """The end of a team that cannot come any further; None while it may."""
    left = open_tasks(tasks)
    to_do = [task for task in left if not is_queued(task)]
    nobody = all(prospect == "never" for prospect in prospects.values())
    if not to_do and left and queue.trouble is not None:
        waits = f"{_tasks(len(left), 'waits', 'wait')} to be merged: {queue.trouble}"
        if queue.for_good:
            return Verdict("failed", waits)
        if now_s - queue.since_s >= HELD_S:
            return Verdict("unfinished", waits)
    # What was handed in is brought to the target first: that costs nobody's budget anything.
    merging = len(to_do) < len(left) and queue.trouble is None
    if to_do and nobody and not merging:
        return _nobody_left(agents, len(to_do))
    return None


def _nobody_left(agents: Mapping[str, AgentFacts], left: int) -> Verdict:
    """The end of a team in which nobody works any more, though there is something to do."""
    limits = [agent for agent in agents.values() if agent.at_limit is not None]
    if limits:
        return Verdict("unfinished", limits[0].cause or "A limit was met.")
    ends = sorted(f"{name} {agent.end}: {agent.cause}" for name, agent in agents.items())
    broke = [agent for agent in agents.values() if agent.end in ("failed", "lost")]
    why = "; ".join(ends[:5]) or "there are no members"
    words = f"Nobody is left to work, and {_tasks(left, 'is', 'are')} open ({why})."
    return Verdict("failed" if broke or not agents else "unfinished", words)


def _tasks(number: int, one: str, many: str) -> str:
    return f"1 task {one}" if number == 1 else f"{number} tasks {many}"


def is_idle(config: TeamConfig, tasks: Sequence[Task]) -> bool:
    """Whether nobody has a turn or anything to take, and nothing waits to be merged."""
    by_id = {task.id: task for task in tasks}
    agents = [(member, member.agent) for member in config.roster]
    at_work = any(
        agent is not None
        and (
            agent.phase == "starting"
            or (agent.phase == "running" and (member.is_active or _has_work(member.name, tasks)))
        )
        for member, agent in agents
    )
    claimable = any(
        agent is not None and agent.phase == "running" and agent.asked.claims for _, agent in agents
    ) and any(True for _ in ready(by_id, team=config.name))
    return not (at_work or claimable or any(is_queued(task) for task in tasks))


def _has_work(name: str, tasks: Sequence[Task]) -> bool:
    return any(
        task.status == "in_progress" and (task.owner or "").partition("@")[0] == name
        for task in tasks
    )
