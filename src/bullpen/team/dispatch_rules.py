"""Which ready task a member should take next, so that together they are done soonest. Pure.

Facts are read here key by key and not as a record: a list of thousands is looked at by every idle
member, and reading a whole record of each would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.rules import open_blockers

WEIGHTS = {"small": 1, "medium": 3, "large": 8}
"""How much work a task is, by its effort. One that says nothing is medium."""


def in_order(
    tasks: Mapping[str, Task], team: TeamConfig, name: str, *, idle: Sequence[str]
) -> list[Task]:
    """The tasks that a member should try to claim, best first.

    Its own come first: what was assigned to it, and what came back to it. Then what the fewest of
    the idle members can do, then what the fewest of all can do: a member that can do much leaves
    to the others what they can do as well. Then what most work waits for. Of tasks that are alike
    in all this, the large ones go to the idle member that has had the least work so far and the
    small ones to the others; at last their order in the list decides.

    Left out is what cannot be claimed: blocked, another's, given up, or in need of something that
    the member cannot do. What it was relieved of is left out as long as there is somebody else
    who could take it.
    """
    crew = _Crew(team, name)
    waiting = [
        (task, able)
        for task in _claimable(tasks, team.name, name)
        if name in (able := crew.able(task))
    ]
    if len(waiting) < 2:
        return [task for task, _ in waiting]
    weights = {task_id: _weight(_own(task)) for task_id, task in tasks.items()}
    chains = _chains(tasks, weights)
    loads = _loads(tasks, weights, team.name)
    least = min((loads.get(other, 0) for other in idle if other != name), default=0)
    sign = -1 if loads.get(name, 0) <= least else 1
    resting = {name, *idle}

    def rank(row: tuple[Task, frozenset[str]]) -> tuple[bool, int, int, int, int]:
        task, able = row
        # Whatever has an owner here is its own.
        return (
            not task.owner,
            len(able & resting),
            len(able),
            -chains[task.id],
            sign * weights[task.id],
        )

    return [task for task, _ in sorted(waiting, key=rank)]


class _Crew:
    """Who takes tasks and what each can do, for one of them who asks."""

    def __init__(self, team: TeamConfig, name: str) -> None:
        self._name = name
        self._skills: dict[str, frozenset[str]] = {name: frozenset()}
        for member in team.roster:
            agent = member.agent
            spec = None if agent is None or agent.phase == "ended" else agent.asked
            if spec is not None and (spec.claims or member.name == name):
                self._skills[member.name] = frozenset(spec.skills or ())
        self._capable: dict[tuple[str, ...], frozenset[str]] = {}

    def able(self, task: Task) -> frozenset[str]:
        """Those who can do what a task needs, without those who were relieved of it."""
        own = _own(task)
        needs, tried = _words(own, "needs"), _words(own, "tried")
        capable = self._capable.get(needs)
        if capable is None:
            can = (name for name, skills in self._skills.items() if skills.issuperset(needs))
            capable = self._capable[needs] = frozenset(can)
        able = capable.difference(tried) if tried else capable
        # Whoever gave it to this member again wants just that.
        again = self._name in capable and (bool(task.owner) or not able)
        return able | {self._name} if again else able


def _claimable(tasks: Mapping[str, Task], team: str, name: str) -> Iterator[Task]:
    """What is ready for a member, as `rules.ready` says."""
    return (
        task
        for task in tasks.values()
        if task.status == "pending"
        and (not task.owner or owner_of(task, team) == name)
        and not (task.blocked_by and open_blockers(task, tasks.get))
        and not task.is_internal
        and not isinstance(_own(task).get("givenUp"), str)
    )


def _loads(
    tasks: Mapping[str, Task], weights: Mapping[str, int], team: str
) -> dict[str | None, int]:
    """How much work each member has had so far."""
    loads: dict[str | None, int] = {}
    for task_id, task in tasks.items():
        if task.status != "pending":
            owner = owner_of(task, team)
            loads[owner] = loads.get(owner, 0) + weights[task_id]
    return loads


def _chains(tasks: Mapping[str, Task], weights: Mapping[str, int]) -> dict[str, int]:
    """For every open task the work in the longest chain that begins with it.

    In a circle of tasks, none of which can ever be begun, each counts once.
    """
    waiters: dict[str, list[str]] = {}
    left = [task for task in tasks.values() if task.status != "completed"]
    for task in left:
        for blocker in task.blocked_by:
            waiters.setdefault(blocker, []).append(task.id)
    chains = {task.id: weights[task.id] for task in left if task.id not in waiters}
    for task in left:
        if task.id not in chains:
            _measure(task.id, waiters, weights, chains)
    return chains


def _measure(
    start: str, waiters: Mapping[str, list[str]], weights: Mapping[str, int], chains: dict[str, int]
) -> None:
    """Measure a task and all that wait for it, the last first; chains are too long to recurse."""
    begun: set[str] = set()
    walk = [start]
    while walk:
        task_id = walk[-1]
        if task_id not in begun:
            begun.add(task_id)
            walk += [id_ for id_ in waiters[task_id] if id_ not in chains]
            continue
        walk.pop()
        if task_id not in chains:
            behind = max(chains.get(id_, 0) for id_ in waiters[task_id])
            chains[task_id] = weights[task_id] + behind


def _weight(own: Mapping[str, Any]) -> int:
    effort = own.get("effort")
    return WEIGHTS.get(effort if isinstance(effort, str) else "medium", WEIGHTS["medium"])


def _words(own: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of words. One that is damaged is none, as in the record."""
    words = own.get(key)
    if not words or not isinstance(words, list):
        return ()
    return tuple(words) if all(isinstance(word, str) for word in words) else ()


def _own(task: Task) -> Mapping[str, Any]:
    own = (task.metadata or {}).get("bullpen")
    return own if isinstance(own, dict) else {}
