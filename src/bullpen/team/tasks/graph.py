"""The dependency graph of tasks: order, cycles and two drawings. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from bullpen.protocol.task import Task
from bullpen.team.tasks.check_rules import is_done

_DEPTH_MAX = 10
_SUBJECT_MAX = 80
_BIDI_CONTROLS = frozenset(
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_IN_LABELS = frozenset(" .,:-+/()")

Blockers = dict[str, list[str]]
"""For every task, the existing tasks it depends on, whichever of the two records it."""


def blockers(tasks: Iterable[Task]) -> Blockers:
    """Return the dependencies of each task. Ids of missing tasks are left out."""
    there = {task.id: task for task in tasks}
    waits: dict[str, dict[str, None]] = {
        task.id: dict.fromkeys(id_ for id_ in task.blocked_by if id_ in there)
        for task in there.values()
    }
    for task in there.values():
        for waiter in task.blocks:
            if waiter in waits:
                waits[waiter][task.id] = None
    return {task_id: list(ids) for task_id, ids in waits.items()}


def layers(tasks: Iterable[Task]) -> list[list[str]]:
    """Return the ids in layers: each task is one layer below the last of its dependencies.

    Tasks in a cycle, and those that depend on one, are in the last layer.
    """
    found, stuck = _layered(blockers(tasks))
    return [*found, stuck] if stuck else found


def stuck(tasks: Iterable[Task]) -> set[str]:
    """Return the ids of tasks in a cycle, and of tasks that depend on one."""
    return set(_layered(blockers(tasks))[1])


def _layered(waits: Blockers) -> tuple[list[list[str]], list[str]]:
    waiters: dict[str, list[str]] = {task_id: [] for task_id in waits}
    for task_id, ids in waits.items():
        for blocker in ids:
            waiters[blocker].append(task_id)
    left = {task_id: len(ids) for task_id, ids in waits.items()}
    position = {task_id: index for index, task_id in enumerate(waits)}
    found: list[list[str]] = []
    layer = [task_id for task_id, count in left.items() if count == 0]
    while layer:
        found.append(layer)
        following = []
        for task_id in layer:
            del left[task_id]
            for waiter in waiters[task_id]:
                left[waiter] -= 1
                if left[waiter] == 0:
                    following.append(waiter)
        layer = sorted(following, key=position.__getitem__)
    return found, list(left)


def circles(tasks: Iterable[Task]) -> list[list[str]]:
    """Return cycles of tasks, each as a path along the dependencies.

    No task is in two of them. Breaking them up may reveal others.
    """
    waits = blockers(tasks)
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            # The path ends where it began, and goes from each task to one that depends on it.
            walk: list[str] = list(reversed(error.args[1][1:]))
            found.append(walk)
            gone = set(walk)
            waits = {
                task_id: [blocker for blocker in ids if blocker not in gone]
                for task_id, ids in waits.items()
                if task_id not in gone
            }
        else:
            return found


def mermaid(tasks: Iterable[Task]) -> str:
    """Return the graph as Mermaid text, from each task to those that depend on it."""
    shown = list(tasks)
    waits = blockers(shown)
    nodes = [f'  {_node(task.id)}["{_escaped(_title(task))}"]:::{task.status}' for task in shown]
    arrows = [
        f"  {_node(blocker)} --> {_node(task_id)}"
        for task_id, ids in waits.items()
        for blocker in ids
    ]
    classes = [
        "  classDef pending fill:#eeeeee,stroke:#888888,color:#000000",
        "  classDef in_progress fill:#fff3bf,stroke:#f08c00,color:#000000",
        "  classDef completed fill:#d3f9d8,stroke:#2b8a3e,color:#000000",
    ]
    return "\n".join(["graph TD", *nodes, *arrows, *classes])


def _node(task_id: str) -> str:
    # Every other character is encoded, so that two ids never become the same node.
    return "t" + re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", task_id)


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() or c in _IN_LABELS else f"#{ord(c)};" for c in text)


def _title(task: Task) -> str:
    owner = f" ({one_line(task.owner)})" if task.owner else ""
    return f"{one_line(task.id)}: {one_line(task.subject)}{owner}"


def one_line(text: str) -> str:
    """Return text as one line without terminal control characters, shortened if it is long."""
    plain = "".join(
        " " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _BIDI_CONTROLS else c
        for c in text[: 4 * _SUBJECT_MAX]
    )
    words = " ".join(plain.split())
    return words if len(words) <= _SUBJECT_MAX else words[: _SUBJECT_MAX - 1] + "…"


LONGEST = " *"
"""How the line of a task ends that is on the longest chain of unfinished tasks."""


def lines(tasks: Iterable[Task]) -> list[str]:
    """Return the graph for a terminal: one line per task, below one of its dependencies.

    A task with several dependencies is below the last of them and names the others. Long chains
    continue further down under the id where they broke off. `*` marks the longest chain of
    unfinished tasks.
    """
    return list(_Drawing(list(tasks)).lines())


class _Drawing:
    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.waits = blockers(tasks)
        self.layer = {
            task_id: depth for depth, layer in enumerate(layers(tasks)) for task_id in layer
        }
        self.stuck = {task_id for walk in circles(tasks) for task_id in walk}
        self.critical = self._critical()
        self.below: dict[str, list[str]] = {}
        self.above: dict[str, str] = {}
        for task_id, ids in self.waits.items():
            # A task in a cycle has no place below another, so it starts its own drawing.
            if ids and task_id not in self.stuck:
                above = max(ids, key=self.layer.__getitem__)
                self.above[task_id] = above
                self.below.setdefault(above, []).append(task_id)

    def _critical(self) -> set[str]:
        """Return the longest chain of unfinished tasks, if it has more than one."""
        length: dict[str, int] = {}
        before: dict[str, str | None] = {}
        for task_id in sorted(self.tasks, key=self.layer.__getitem__):
            if is_done(self.tasks[task_id]):
                continue
            open_ids = [blocker for blocker in self.waits[task_id] if blocker in length]
            before[task_id] = max(open_ids, key=length.__getitem__, default=None)
            length[task_id] = 1 + max((length[blocker] for blocker in open_ids), default=0)
        current = max(length, key=length.__getitem__, default=None)
        chain = []
        while current is not None:
            chain.append(current)
            current = before[current]
        return set(chain) if len(chain) > 1 else set()

    def lines(self) -> Iterator[str]:
        for root in self.tasks:
            if root in self.above:
                continue
            yield self._label(root)
            broken_off: list[str] = [root]
            while broken_off:
                start = broken_off.pop(0)
                if start != root:
                    yield f"{one_line(start)} …"
                yield from self._branches(start, "", 1, broken_off)

    def _branches(
        self, task_id: str, indent: str, depth: int, broken_off: list[str]
    ) -> Iterator[str]:
        children = self.below.get(task_id, [])
        for child in children:
            last = child == children[-1]
            goes_on = depth == _DEPTH_MAX and child in self.below
            yield indent + ("└─ " if last else "├─ ") + self._label(child) + " …" * goes_on
            if goes_on:
                broken_off.append(child)
            else:
                deeper = indent + ("   " if last else "│  ")
                yield from self._branches(child, deeper, depth + 1, broken_off)

    def _label(self, task_id: str) -> str:
        task = self.tasks[task_id]
        waits = any(not is_done(self.tasks[id_]) for id_ in self.waits[task_id])
        state = "blocked" if task.status == "pending" and waits else task.status.replace("_", " ")
        owner = f" ({one_line(task.owner)})" if task.owner else ""
        others = [one_line(id_) for id_ in self.waits[task_id] if id_ != self.above.get(task_id)]
        circle = ", in a cycle" if task_id in self.stuck else ""
        also = f" ← {', '.join(others)}{circle}" if others else ""
        mark = LONGEST if task_id in self.critical else ""
        return f"{one_line(task_id)} [{state}] {one_line(task.subject)}{owner}{also}{mark}"
