"""The dependency graph: order, circles, and drawings that no subject can break."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bullpen.protocol.task import Task
from bullpen.team.tasks import graph

if TYPE_CHECKING:
    from unit.team.conftest import MakeTask


def test_no_tasks_make_no_graph() -> None:
    assert graph.layers([]) == []
    assert graph.lines([]) == []
    assert graph.circles([]) == []
    assert graph.mermaid([]).startswith("graph TD\n")


def test_each_task_is_one_layer_below_the_last_it_waits_for(make_task: MakeTask) -> None:
    tasks = [
        make_task("1"),
        make_task("2", blocked_by=["1"]),
        make_task("3", blocked_by=["1", "2"]),
        make_task("4", blocked_by=["99"]),
        # Only the other end of this edge is noted.
        make_task("5", blocks=["2", "98"]),
    ]
    assert graph.layers(tasks) == [["1", "4", "5"], ["2"], ["3"]]


def test_tasks_in_a_circle_and_behind_it_are_the_last_layer(make_task: MakeTask) -> None:
    tasks = [
        make_task("1"),
        make_task("2", blocked_by=["1", "3"]),
        make_task("3", blocked_by=["2"]),
        make_task("4", blocked_by=["3"]),
    ]
    assert graph.layers(tasks) == [["1"], ["2", "3", "4"]]
    assert graph.stuck(tasks) == {"2", "3", "4"}


def test_every_circle_is_found_as_a_walk(make_task: MakeTask) -> None:
    tasks = [
        make_task("1", blocked_by=["3"]),
        make_task("2", blocked_by=["1"]),
        make_task("3", blocked_by=["2"]),
        make_task("4", blocked_by=["4", "1"]),
        make_task("5", blocked_by=["4"]),
    ]
    waits = graph.blockers(tasks)
    walks = graph.circles(tasks)
    assert sorted(sorted(walk) for walk in walks) == [["1", "2", "3"], ["4"]]
    for walk in walks:
        for task_id, blocker in zip(walk, [*walk[1:], walk[0]], strict=True):
            assert blocker in waits[task_id]


def test_a_drawing_puts_each_task_once_below_the_last_it_waits_for(make_task: MakeTask) -> None:
    tasks = [
        make_task("1", subject="Design", status="completed", owner="alice"),
        make_task("2", subject="Build", status="in_progress", owner="bob", blocked_by=["1"]),
        make_task("3", subject="Write docs", blocked_by=["1"]),
        make_task("4", subject="Test", blocked_by=["2", "1"]),
        make_task("5", subject="Ship", blocked_by=["3", "4"]),
        make_task("6", subject="Party"),
    ]
    assert graph.lines(tasks) == [
        "1 [completed] Design (alice)",
        "├─ 2 [in progress] Build (bob) *",
        "│  └─ 4 [blocked] Test ← 1 *",
        "│     └─ 5 [blocked] Ship ← 3 *",
        "└─ 3 [pending] Write docs",
        "6 [pending] Party",
    ]


def test_no_chain_is_marked_where_nothing_waits(make_task: MakeTask) -> None:
    tasks = [make_task("1"), make_task("2"), make_task("3", status="completed")]
    assert not any(line.endswith("*") for line in graph.lines(tasks))


def test_a_long_chain_goes_on_under_the_id_where_it_broke_off(make_task: MakeTask) -> None:
    tasks = [make_task("1")]
    tasks += [make_task(str(number), blocked_by=[str(number - 1)]) for number in range(2, 201)]
    lines = graph.lines(tasks)
    assert max(map(len, lines)) < 80
    labels = [match[1] for line in lines if (match := re.search(r"(\d+) \[", line))]
    assert labels == [task.id for task in tasks]
    assert lines[10].endswith("11 [blocked] Task 11 * …")
    assert lines[11] == "11 …"
    assert lines[12] == "└─ 12 [blocked] Task 12 *"


def test_tasks_in_a_circle_are_drawn_and_called_so(make_task: MakeTask) -> None:
    tasks = [
        make_task("1", blocked_by=["2"]),
        make_task("2", blocked_by=["1"]),
        make_task("3", blocked_by=["2"]),
    ]
    assert graph.lines(tasks)[:2] == [
        "1 [blocked] Task 1 ← 2, in a cycle *",
        "2 [blocked] Task 2 ← 1, in a cycle *",
    ]
    assert len(graph.lines(tasks)) == 3


def test_a_subject_stays_on_its_line_and_cannot_steer_the_terminal(make_task: MakeTask) -> None:
    nasty = "a\nb\x1b[2J\u202ec\u2028d \ud83d" + "x" * 200
    [line] = graph.lines([make_task("1", subject=nasty, owner="al\nice")])
    assert line.startswith("1 [pending] a b [2J c d xxx")
    assert line.endswith("… (al ice)")
    assert len(line) < 120


def test_mermaid_has_a_node_for_each_task_and_an_arrow_for_each_edge(make_task: MakeTask) -> None:
    tasks = [
        make_task("1", subject="Design", status="completed", owner="alice"),
        make_task("a_b", subject="Build", blocked_by=["1", "99"]),
        make_task("a-b", subject="Test", status="in_progress"),
    ]
    lines = graph.mermaid(tasks).splitlines()
    assert lines[:5] == [
        "graph TD",
        '  t1["1: Design (alice)"]:::completed',
        '  ta_5f_b["a#95;b: Build"]:::pending',
        '  ta_2d_b["a-b: Test"]:::in_progress',
        "  t1 --> ta_5f_b",
    ]
    assert [line.split()[1] for line in lines[5:]] == ["pending", "in_progress", "completed"]


def test_nothing_in_a_subject_breaks_out_of_its_label(make_task: MakeTask) -> None:
    nasty = 'x"]; click t1 "javascript:1"\n`<b>#quot;{}|%%'
    line = graph.mermaid([make_task("1", subject=nasty)]).splitlines()[1]
    match = re.fullmatch(r'  t1\["([^"]*)"\]:::pending', line)
    assert match
    assert not set(match[1]) & set("\"[]`<>{}|%'\n")
    assert "#34;#93;#59; click" in match[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.integers(1, 12).map(str), st.lists(st.integers(1, 12).map(str), unique=True))
)
def test_any_graph_is_drawn_whole(make_task: MakeTask, edges: dict[str, list[str]]) -> None:
    tasks: list[Task] = [make_task(task_id, blocked_by=ids) for task_id, ids in edges.items()]
    drawn = [match[1] for line in graph.lines(tasks) if (match := re.search(r"(\d+) \[", line))]
    assert sorted(drawn) == sorted(edges)
    assert sorted(task_id for layer in graph.layers(tasks) for task_id in layer) == sorted(edges)
    in_circles = [task_id for walk in graph.circles(tasks) for task_id in walk]
    assert len(in_circles) == len(set(in_circles))
    assert bool(in_circles) == bool(graph.stuck(tasks))
