"""Draws the graph of tasks with characters: columns of tasks with lines between them. Pure.

A line leaves a task on its right side, passes other columns in the free row below it, and turns in
a lane of its own just before the task that waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, styled
from bullpen.view.cards import TaskCard
from bullpen.view.drawings.graph import Edge, Graph, GraphNode, graph_of
from bullpen.view.task_state import FINISHED

_UP, _RIGHT, _DOWN, _LEFT = 1, 2, 4, 8
_NODE_LEAST, _NODE_MAX = 20, 32
_LANES_MAX = 12
SHOWN_MAX = 400
"""Above this number, tasks that are done are left out."""


def drawn(tasks: Sequence[TaskCard], terminal: TerminalText, width: int) -> tuple[list[Text], int]:
    """The lines of the drawing, and its width: the given one if it fits."""
    left_out = 0
    if len(tasks) > SHOWN_MAX:
        rest = [task for task in tasks if task.state not in FINISHED]
        left_out, tasks = len(tasks) - len(rest), rest
    graph = graph_of(tasks)
    picture = _Picture(graph, terminal, width)
    head = f"{terminal.glyph('critical')} marks the chain of open tasks with the most effort."
    lines = [styled(head, "muted")]
    if left_out:
        lines.append(styled(f"{left_out} finished tasks are not shown.", "muted"))
    lines += picture.lines()
    return lines, picture.width


class _Picture:
    """A canvas that records the directions of lines at each point, with tasks on it."""

    def __init__(self, graph: Graph, terminal: TerminalText, width: int) -> None:
        self._graph, self._terminal = graph, terminal
        self._nodes = {node.task.id: node for node in graph.nodes}
        self._ways: dict[int, dict[int, int]] = {}
        self._critical: set[tuple[int, int]] = set()
        room = width // max(1, graph.columns) - 5
        self._node_width = min(_NODE_MAX, max(_NODE_LEAST, room))
        self._lanes = self._plan_lanes()
        self._starts: list[int] = []
        x = 0
        for column in range(graph.columns):
            x += self._gap(column)
            self._starts.append(x)
            x += self._node_width
        self.width = x + 2
        # The longest chain last, so that it is visible where lines cross.
        for edge in sorted(graph.edges, key=lambda each: each.critical):
            self._draw(edge)

    def lines(self) -> list[Text]:
        """The rows of the drawing: task rows and free rows in turn."""
        rows: dict[int, list[GraphNode]] = {}
        for node in sorted(self._graph.nodes, key=lambda each: each.column):
            rows.setdefault(node.row, []).append(node)
        lines: list[Text] = []
        for row in range(self._graph.rows):
            lines.append(self._line(2 * row, rows.get(row, [])))
            lines.append(self._line(2 * row + 1, []))
        while lines and not lines[-1].plain.strip():
            lines.pop()
        return lines

    def _plan_lanes(self) -> list[list[str]]:
        """The tasks that get a lane before each column, from top to bottom."""
        lanes: list[list[str]] = [[] for _ in range(self._graph.columns)]
        for edge in self._graph.edges:
            at = lanes[self._nodes[edge.after].column]
            if edge.before not in at:
                at.append(edge.before)
        for at in lanes:
            at.sort(key=lambda each: (self._nodes[each].row, self._nodes[each].column))
        return lanes

    def _gap(self, column: int) -> int:
        lanes = min(len(self._lanes[column]), _LANES_MAX)
        return lanes + 3 if column else 0

    def _draw(self, edge: Edge) -> None:
        first, then = self._nodes[edge.before], self._nodes[edge.after]
        if first.column >= then.column:
            return  # A circle has no order to draw.
        number = self._lanes[then.column].index(edge.before) % _LANES_MAX
        lane = self._starts[then.column] - self._gap(then.column) + 1 + number
        x, y = self._starts[first.column] + self._node_width, 2 * first.row
        if then.column > first.column + 1:
            self._down(x, y, y + 1, edge)
            self._mark(x, y, _LEFT, edge)
            y += 1
        else:
            self._mark(x, y, _LEFT, edge)
        self._across(x, lane, y, edge)
        self._down(lane, y, 2 * then.row, edge)
        self._across(lane, self._starts[then.column] - 1, 2 * then.row, edge)

    def _across(self, x: int, to: int, y: int, edge: Edge) -> None:
        for at in range(x, to):
            self._mark(at, y, _RIGHT, edge)
            self._mark(at + 1, y, _LEFT, edge)

    def _down(self, x: int, y: int, to: int, edge: Edge) -> None:
        for at in range(min(y, to), max(y, to)):
            self._mark(x, at, _DOWN, edge)
            self._mark(x, at + 1, _UP, edge)

    def _mark(self, x: int, y: int, ways: int, edge: Edge) -> None:
        row = self._ways.setdefault(y, {})
        row[x] = row.get(x, 0) | ways
        if edge.critical:
            self._critical.add((x, y))

    def _line(self, y: int, nodes: Sequence[GraphNode]) -> Text:
        line = Text("", no_wrap=True, end="")
        ways = self._ways.get(y, {})
        at = 0
        for node in nodes:
            start = self._starts[node.column]
            self._lead(line, ways, y, at, start, arrow=bool(ways.get(start - 1)))
            style = "critical" if node.critical else STATE_STYLES[node.task.state]
            line.append_text(self._terminal.column(self._words(node), self._node_width, style))
            at = start + self._node_width
        self._lead(line, ways, y, at, max(ways, default=-1) + 1, arrow=False)
        line.rstrip()
        return line

    def _lead(
        self, line: Text, ways: dict[int, int], y: int, x: int, to: int, *, arrow: bool
    ) -> None:
        for at in range(x, to):
            sign = self._terminal.line(ways.get(at, 0))
            if arrow and at == to - 1:
                sign = self._terminal.glyph("then")
            line.append_text(styled(sign, "critical" if (at, y) in self._critical else "muted"))

    def _words(self, node: GraphNode) -> str:
        mark = self._terminal.glyph("critical") if node.critical else " "
        owner = f" {self._terminal.glyph('dot')} {node.task.owner}" if node.task.owner else ""
        head = f"{mark}{self._terminal.glyph(node.task.state)} #{node.task.id} "
        room = self._node_width - len(head) - min(len(owner), 10)
        return head + self._terminal.fit(node.task.subject, room) + self._terminal.fit(owner, 10)
