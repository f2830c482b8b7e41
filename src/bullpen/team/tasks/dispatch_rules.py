"""Rules for which ready task a member takes next, so that all tasks are done soonest. Pure.

Facts are read here key by key, not as records: every idle member reads lists of thousands of tasks,
and parsing them would take longer than everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.team.lookup import owner_of
from bullpen.team.tasks.meant_for import MeantFor, lenses
from bullpen.team.tasks.rules import open_blockers

WEIGHTS = {"small": 1, "medium": 3, "large": 8}
"""The amount of work of a task, by its effort. The default is medium."""


def in_order(
    tasks: Mapping[str, Task], team: TeamConfig, name: str, *, idle: Sequence[str]
) -> list[Task]:
    """Return the tasks that a member should try to claim, best first.

    Its own tasks come first: those assigned to it, and those that came back to it. Then the tasks
    that the fewest idle members can do, then those that the fewest of all members can do: a member
    with many skills leaves to others what they can also do. Then the tasks that block the most
    work. Of otherwise equal tasks, the large ones go to the idle member that has had the least
    work, and the small ones to the others. Finally, list order decides.

    Tasks that cannot be claimed are left out: blocked, owned by others, given up, or needing a
    skill that the member lacks. So are tasks that are meant for another member. A task that was
    taken away from the member, or that it gave back, is left out while somebody else could take it.
    """
    crew = _Crew(team, tasks, name)
    waiting = [
        (task, able)
        for task in _claimable(tasks, team.name, name)
        if name in (able := crew.able(task)) and crew.may_have(task, able)
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
        # Every task here that has an owner belongs to this member.
        return (
            not task.owner,
            len(able & resting),
            len(able),
            -chains[task.id],
            sign * weights[task.id],
        )

    return [task for task, _ in sorted(waiting, key=rank)]


def kept_for(tasks: Mapping[str, Task], team: TeamConfig) -> dict[str, MeantFor]:
    """Return, for each ready task that is kept for some members, for whom and why.

    Only members that can still take it count: when they have ended, gave it back or had it taken
    away, it is for all.
    """
    crew = _Crew(team, tasks)
    free = (task for task in _claimable(tasks, team.name) if not task.owner)
    found = ((task.id, crew.kept_for(task)) for task in free)
    return {task_id: kept for task_id, kept in found if kept is not None}


class _Crew:
    """The members that take tasks and their skills, as seen by one of them."""

    def __init__(self, team: TeamConfig, tasks: Mapping[str, Task], name: str = "") -> None:
        self._name = name
        self._lenses = lenses(team.roster, tasks)
        self._skills: dict[str, frozenset[str]] = {name: frozenset()} if name else {}
        for member in team.roster:
            agent = member.agent
            spec = None if agent is None or agent.phase == "ended" else agent.spec
            if spec is not None and (spec.claims or member.name == name):
                self._skills[member.name] = frozenset(spec.skills or ())
        self._capable: dict[tuple[str, ...], frozenset[str]] = {}

    def able(self, task: Task) -> frozenset[str]:
        """Return who can do a task, without those it was taken from or that gave it back."""
        own = _own(task)
        needs, tried = _words(own, "needs"), _words(own, "tried") + _words(own, "gaveBack")
        capable = self._capable.get(needs)
        if capable is None:
            can = (name for name, skills in self._skills.items() if skills.issuperset(needs))
            capable = self._capable[needs] = frozenset(can)
        able = capable.difference(tried) if tried else capable
        # It was assigned to this member again on purpose.
        again = self._name in capable and (bool(task.owner) or not able)
        return able | {self._name} if again else able

    def kept_for(self, task: Task) -> MeantFor | None:
        """Return for which of those that can still do a task it is kept."""
        meant = self._lenses.meant_for(task)
        left = frozenset() if meant is None else meant.names & self.able(task)
        return MeantFor(left, meant.why) if meant is not None and left else None

    def may_have(self, task: Task, able: frozenset[str]) -> bool:
        """Return whether this member may be handed a task: it is its own, or kept for no other."""
        if task.owner or able == {self._name}:
            return True
        kept = self.kept_for(task)
        return kept is None or self._name in kept.names


def _claimable(tasks: Mapping[str, Task], team: str, name: str = "") -> Iterator[Task]:
    """Return the tasks that a member can claim, as `rules.ready` does."""
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
    """Return how much work each member has had so far."""
    loads: dict[str | None, int] = {}
    for task_id, task in tasks.items():
        if task.status != "pending":
            owner = owner_of(task, team)
            loads[owner] = loads.get(owner, 0) + weights[task_id]
    return loads


def _chains(tasks: Mapping[str, Task], weights: Mapping[str, int]) -> dict[str, int]:
    """Return, for every open task, the work in the longest chain that begins with it.

    In a cycle, where no task can ever start, each task counts once.
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
    """Measure a task and all that depend on it, the last first. Chains are too long to recurse."""
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
    """Return a list of words. A damaged list is empty, as in the record."""
    words = own.get(key)
    if not words or not isinstance(words, list):
        return ()
    return tuple(words) if all(isinstance(word, str) for word in words) else ()


def _own(task: Task) -> Mapping[str, Any]:
    own = (task.metadata or {}).get("bullpen")
    return own if isinstance(own, dict) else {}
