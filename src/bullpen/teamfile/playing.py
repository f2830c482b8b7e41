"""A task list, played through with members that take no real time: who would do what, and when.

Who takes which task next is decided by the rules that agents go by. How long a task takes is only
known by its effort.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.team.dispatch_rules import WEIGHTS, in_order
from bullpen.team.graph import layers

_MEDIUM = WEIGHTS["medium"]


@dataclass(frozen=True, slots=True)
class Played:
    """Who does a task, from when to when. A small task takes 1."""

    task_id: str
    member: str
    begins: int
    ends: int


def play(tasks: Sequence[Task], team: TeamConfig, members: Sequence[str]) -> list[Played]:
    """Every task that can be done, in the order in which they are begun."""
    return _Play(tasks, team, members).all()


def waves(tasks: Sequence[Task]) -> dict[str, int]:
    """For every task how many have to be done before it one after another, plus one."""
    return {task_id: number for number, layer in enumerate(layers(tasks), 1) for task_id in layer}


def weight_of(task: Task) -> int:
    """How long a task takes."""
    return WEIGHTS.get(task.facts.effort or "medium", _MEDIUM)


class _Play:
    def __init__(self, tasks: Sequence[Task], team: TeamConfig, members: Sequence[str]) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._team = team
        self._idle = list(members)
        self._members = list(members)
        self._now = 0
        self._at_work: list[tuple[int, int, str, str]] = []
        self._played: list[Played] = []
        # How many tasks each still waits for: most of the time nothing is ready for anybody.
        self._left = {task.id: len(set(task.blocked_by)) for task in tasks}
        self._waiters: dict[str, list[str]] = {}
        for task in tasks:
            for blocker in set(task.blocked_by):
                self._waiters.setdefault(blocker, []).append(task.id)
        self._ready = {task_id for task_id, count in self._left.items() if count == 0}

    def all(self) -> list[Played]:
        while True:
            self._hand_out()
            if not self._at_work:
                return self._played
            self._now, _, member, task_id = heapq.heappop(self._at_work)
            self._end(task_id)
            self._idle.append(member)
            self._idle.sort(key=self._members.index)

    def _hand_out(self) -> None:
        """Let everybody who rests take a task, as long as somebody does."""
        for member in list(self._idle):
            if not self._ready:
                return
            task = self._next_for(member)
            if task is not None:
                self._begin(task, member)

    def _next_for(self, member: str) -> Task | None:
        # Only what is ready matters, and what was done before for how much each had to do.
        own = in_order(self._tasks, self._team, member, idle=self._idle)
        return next((task for task in own if task.owner == member or member != LEAD), None)

    def _begin(self, task: Task, member: str) -> None:
        ends = self._now + weight_of(task)
        self._idle.remove(member)
        self._ready.discard(task.id)
        self._tasks[task.id] = task.evolve(status="in_progress", owner=member)
        self._played.append(Played(task.id, member, self._now, ends))
        heapq.heappush(self._at_work, (ends, len(self._played), member, task.id))

    def _end(self, task_id: str) -> None:
        # Its checks count for passed: without them it would not be done.
        done = self._tasks[task_id].evolve(status="completed")
        self._tasks[task_id] = done.with_facts(checks=None) if done.facts.checks else done
        for waiter in self._waiters.get(task_id, ()):
            self._left[waiter] -= 1
            if self._left[waiter] == 0:
                self._ready.add(waiter)


def unplayed(tasks: Mapping[str, Task], played: Sequence[Played]) -> list[Task]:
    """The tasks that nobody would ever do."""
    done = {row.task_id for row in played}
    return [task for task in tasks.values() if task.id not in done]
