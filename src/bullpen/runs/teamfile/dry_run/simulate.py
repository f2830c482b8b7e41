"""Simulates a task list: which member would do which task, and when.

The rules that assign real tasks decide who takes which task next. The effort of a task says how
long it takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.team.tasks.dispatch_rules import WEIGHTS, in_order
from bullpen.team.tasks.graph import layers

_MEDIUM = WEIGHTS["medium"]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Who does a task, and from when to when. A small task takes 1."""

    task_id: str
    member: str
    begins: int
    ends: int


def play(tasks: Sequence[Task], team: TeamConfig, members: Sequence[str]) -> list[Simulated]:
    """Return every task that can be done, in the order in which they begin."""
    return _Play(tasks, team, members).all()


def waves(tasks: Sequence[Task]) -> dict[str, int]:
    """Return the wave of each task: one more than the longest chain of tasks before it."""
    return {task_id: number for number, layer in enumerate(layers(tasks), 1) for task_id in layer}


class _Play:
    def __init__(self, tasks: Sequence[Task], team: TeamConfig, members: Sequence[str]) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._team = team
        self._idle = list(members)
        self._members = list(members)
        self._now = 0
        self._at_work: list[tuple[int, int, str, str]] = []
        self._played: list[Simulated] = []
        # How many tasks each task still waits for: usually nothing is ready.
        self._left = {task.id: len(set(task.blocked_by)) for task in tasks}
        self._waiters: dict[str, list[str]] = {}
        for task in tasks:
            for blocker in set(task.blocked_by):
                self._waiters.setdefault(blocker, []).append(task.id)
        self._ready = {task_id for task_id, count in self._left.items() if count == 0}

    def all(self) -> list[Simulated]:
        while True:
            self._hand_out()
            if not self._at_work:
                return self._played
            self._now, _, member, task_id = heapq.heappop(self._at_work)
            self._end(task_id)
            self._idle.append(member)
            self._idle.sort(key=self._members.index)

    def _hand_out(self) -> None:
        """Let each idle member take a task."""
        for member in list(self._idle):
            if not self._ready:
                return
            task = self._next_for(member)
            if task is not None:
                self._begin(task, member)

    def _next_for(self, member: str) -> Task | None:
        # Completed tasks count for how much each member had to do.
        own = in_order(self._tasks, self._team, member, idle=self._idle)
        return next((task for task in own if task.owner == member or member != LEAD), None)

    def _begin(self, task: Task, member: str) -> None:
        ends = self._now + WEIGHTS.get(task.facts.effort or "medium", _MEDIUM)
        self._idle.remove(member)
        self._ready.discard(task.id)
        self._tasks[task.id] = task.evolve(status="in_progress", owner=member)
        self._played.append(Simulated(task.id, member, self._now, ends))
        heapq.heappush(self._at_work, (ends, len(self._played), member, task.id))

    def _end(self, task_id: str) -> None:
        # Its checks count as passed.
        done = self._tasks[task_id].evolve(status="completed")
        self._tasks[task_id] = done.with_facts(checks=None) if done.facts.checks else done
        for waiter in self._waiters.get(task_id, ()):
            self._left[waiter] -= 1
            if self._left[waiter] == 0:
                self._ready.add(waiter)


def unplayed(tasks: Mapping[str, Task], played: Sequence[Simulated]) -> list[Task]:
    """Return the tasks that nobody would ever do."""
    done = {row.task_id for row in played}
    return [task for task in tasks.values() if task.id not in done]
