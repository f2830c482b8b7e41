"""The layout of the graph of tasks: a column and a row for each, and the longest chain. Pure.

A task stands to the right of all tasks it depends on. Within a column, tasks are sorted by the mean
row of their neighbours, so that few lines cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bullpen.view.cards import TaskCard
from bullpen.view.task_state import FINISHED

_SWEEPS = 4
_WEIGHTS = {"small": 1, "medium": 2, "large": 4}


@dataclass(frozen=True, slots=True)
class GraphNode:
    """The place of a task; `critical` if it is on the longest chain of open tasks."""

    task: TaskCard
    column: int
    row: int
    critical: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between two tasks."""

    before: str
    after: str
    critical: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """Tasks in columns and rows, with their dependencies."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    columns: int
    rows: int


def graph_of(tasks: Sequence[TaskCard]) -> Graph:
    """The layout of these tasks. Dependencies on other tasks are ignored."""
    by_id = {task.id: task for task in tasks}
    before = {task.id: [each for each in task.after if each in by_id] for task in tasks}
    order = _in_order(before)
    column = _columns(order, before)
    rows = _rows(order, before, column)
    chain = set(critical_path(tasks))
    nodes = tuple(
        GraphNode(by_id[each_id], column[each_id], rows[each_id], each_id in chain)
        for each_id in by_id
    )
    edges = tuple(
        Edge(first, then, first in chain and then in chain and column[then] == column[first] + 1)
        for then in by_id
        for first in before[then]
    )
    return Graph(
        nodes,
        edges,
        columns=max(column.values(), default=-1) + 1,
        rows=max(rows.values(), default=-1) + 1,
    )


def critical_path(tasks: Sequence[TaskCard]) -> list[str]:
    """The chain of open tasks with the largest total effort, in order."""
    left = {task.id: task for task in tasks if task.state not in FINISHED}
    before = {task.id: [each for each in task.after if each in left] for task in left.values()}
    length: dict[str, int] = {}
    came_from: dict[str, str | None] = {}
    for each_id in _in_order(before):
        first = max(before[each_id], key=lambda each: length.get(each, 0), default=None)
        came_from[each_id] = first
        own = _WEIGHTS.get(left[each_id].effort or "", 2)
        length[each_id] = own + (length.get(first, 0) if first is not None else 0)
    last = max(length, key=lambda each_id: length[each_id], default=None)
    chain: list[str] = []
    while last is not None and last not in chain:
        chain.append(last)
        last = came_from.get(last)
    return chain[::-1]


def _in_order(before: Mapping[str, Sequence[str]]) -> list[str]:
    """All tasks, each after those it depends on. Tasks in a circle come last."""
    after: dict[str, list[str]] = {each_id: [] for each_id in before}
    open_before = {each_id: len(set(firsts)) for each_id, firsts in before.items()}
    for each_id, firsts in before.items():
        for first in set(firsts):
            after[first].append(each_id)
    ready = [each_id for each_id, count in open_before.items() if not count]
    order: list[str] = []
    for each_id in ready:
        order.append(each_id)
        for then in after[each_id]:
            open_before[then] -= 1
            if not open_before[then]:
                ready.append(then)
    placed = set(order)
    return [*order, *(each_id for each_id in before if each_id not in placed)]


def _columns(order: Iterable[str], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    column: dict[str, int] = {}
    for each_id in order:
        column[each_id] = max(
            (column[each] + 1 for each in before[each_id] if each in column), default=0
        )
    return column


def _rows(
    order: Sequence[str], before: Mapping[str, Sequence[str]], column: Mapping[str, int]
) -> dict[str, int]:
    columns: dict[int, list[str]] = {}
    for each_id in order:
        columns.setdefault(column[each_id], []).append(each_id)
    after: dict[str, list[str]] = {each_id: [] for each_id in order}
    for each_id in order:
        for first in before[each_id]:
            after[first].append(each_id)
    rows = {each_id: row for ids in columns.values() for row, each_id in enumerate(ids)}
    for sweep in range(_SWEEPS):
        near = after if sweep % 2 else before
        for number in sorted(columns, reverse=bool(sweep % 2)):
            columns[number].sort(key=lambda each_id: _mean(near[each_id], rows, rows[each_id]))
            rows |= {each_id: row for row, each_id in enumerate(columns[number])}
    return rows


def _mean(near: Sequence[str], rows: Mapping[str, int], own: int) -> float:
    return sum(rows[each] for each in near) / len(near) if near else float(own)
