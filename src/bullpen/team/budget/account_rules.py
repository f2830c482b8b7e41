"""How long the account of an agent may get: older tasks are put together in one row. Pure.

An account is in its agent's record, which every turn writes anew. So it must not get longer with
every task that was ever done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bullpen.protocol.agent import COORDINATION, OLDER, AgentFacts, Spent, sums
from bullpen.protocol.changes import Change, PutMember, PutTeam
from bullpen.protocol.team import TeamConfig

TASKS_KEPT = 32
"""How many of its newest tasks an account lists at least, one by one. Twice as many are too many.
"""

IsSettled = Callable[[str], bool]
"""Returns whether nothing will be booked on a task again, and no budget depends on its usage."""


def is_long(team: TeamConfig, agent: AgentFacts) -> bool:
    """Return whether an agent, or all that have left, have too many tasks in their account."""
    return any(len(_tasks(rows)) > 2 * TASKS_KEPT for rows in (agent.account, team.facts.spent))


def shortened(team: TeamConfig, name: str, is_settled: IsSettled) -> list[Change]:
    """Return the changes that put the older, settled tasks of an agent together.

    A task leaves all accounts at once: what is said about a task is all that was used for it.
    """
    member = team.member(name)
    agent = None if member is None else member.agent
    rows = [] if agent is None else agent.account
    old = {
        task for account in (rows, team.facts.spent) for task in _older(account) if is_settled(task)
    }
    changes: list[Change] = []
    for each in team.roster:
        facts = each.agent
        if facts is not None and not old.isdisjoint(_tasks(facts.account)):
            after = facts.evolve(spent=_together(facts.account, old))
            changes.append(PutMember(each.evolve(bullpen=after.raw)))
    if not old.isdisjoint(_tasks(team.facts.spent)):
        left = team.facts.evolve(spent=_together(team.facts.spent, old))
        changes.append(PutTeam({"bullpen": left.raw}))
    return changes


def _tasks(rows: Iterable[Spent]) -> list[str]:
    """Return the tasks that an account lists, in the order of their first usage."""
    return [task for task in dict.fromkeys(row.task for row in rows) if task not in _NO_TASKS]


_NO_TASKS = (COORDINATION, OLDER)


def _older(rows: Sequence[Spent]) -> list[str]:
    tasks = _tasks(rows)
    return tasks[:-TASKS_KEPT] if len(tasks) > 2 * TASKS_KEPT else []


def _together(rows: Iterable[Spent], old: set[str]) -> list[Spent]:
    """Return an account with these tasks in one row for each model (and agent that has left)."""
    kept: list[Spent] = []
    older: dict[tuple[str | None, str | None], Spent] = {}
    for row in rows:
        if row.task not in old and row.task != OLDER:
            kept.append(row)
            continue
        key = (row.agent, row.model)
        there = older.get(key)
        older[key] = row.evolve(task=OLDER, **({} if there is None else sums(there, row)))
    return [*older.values(), *kept]
