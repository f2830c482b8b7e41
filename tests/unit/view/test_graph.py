"""The graph of tasks: every task right of what it waits for, and the longest chain."""

from __future__ import annotations

import random

from bullpen.view.cards import TaskCard
from bullpen.view.drawings.graph import critical_path, graph_of
from bullpen.view.task_state import TaskState


def card(name: str, *after: str, state: TaskState = "ready", effort: str | None = None) -> TaskCard:
    return TaskCard(name, f"Task {name}", "", state, None, None, after, (), effort=effort)


def test_a_task_stands_to_the_right_of_all_it_waits_for() -> None:
    chance = random.Random(7)
    tasks = [
        card(str(number), *{str(chance.randrange(number)) for _ in range(min(number, 3))})
        for number in range(200)
    ]
    graph = graph_of(tasks)
    place = {node.task.id: (node.column, node.row) for node in graph.nodes}
    assert len(set(place.values())) == len(tasks)
    for edge in graph.edges:
        assert place[edge.before][0] < place[edge.after][0]
    assert graph.columns == max(column for column, _ in place.values()) + 1
    assert graph.rows == max(row for _, row in place.values()) + 1


def test_tasks_that_wait_in_a_circle_or_for_nobody_are_drawn_all_the_same() -> None:
    graph = graph_of([card("1", "2"), card("2", "1"), card("3", "gone")])
    assert {node.task.id for node in graph.nodes} == {"1", "2", "3"}
    assert {(edge.before, edge.after) for edge in graph.edges} == {("1", "2"), ("2", "1")}
    assert graph_of([]).columns == 0


def test_the_longest_chain_counts_effort_and_leaves_out_what_is_done() -> None:
    tasks = [
        card("1", state="done", effort="large"),
        card("2", "1", effort="small"),
        card("3", "2", effort="small"),
        card("4", "1", effort="large"),
    ]
    assert critical_path(tasks) == ["4"]
    assert critical_path([*tasks, card("5", "3", effort="large")]) == ["2", "3", "5"]
    assert critical_path([card("1", state="done")]) == []
    chain = [node.task.id for node in graph_of(tasks).nodes if node.critical]
    assert chain == ["4"]
