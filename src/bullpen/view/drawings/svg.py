"""Drawings of a team as SVG: the graph of tasks, states of members and cost over time. Pure.

They hold class names and no styles, so that pages with a strict policy can show them; the styles
are in `drawing_style`. Everything that members wrote is escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from bullpen.view.agent_words import count, duration
from bullpen.view.drawings.graph import Edge, Graph, GraphNode
from bullpen.view.story import Span, SpendingOverTime, Story
from bullpen.view.task_state import state_word
from bullpen.view.text import one_line

_NODE_W, _NODE_H, _COLUMN_GAP, _ROW_GAP, _EDGE = 220, 52, 56, 14, 12
_SUBJECT_CELLS, _OWNER_CELLS = 28, 30
_PLOT_W, _LABEL_W, _LANE_H, _AXIS_H, _LABEL_CELLS = 860, 140, 26, 24, 18
_SPEND_H, _SPEND_LABEL_W = 180, 72
_POINTS_MAX = 500
_TICKS = 6
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
_THINNEST = 0.8


def graph_svg(graph: Graph, *, links: Callable[[str], str] | None = None) -> str:
    """The tasks and their dependencies; `links` gives the address of a task."""
    width = _EDGE * 2 + max(1, graph.columns) * (_NODE_W + _COLUMN_GAP) - _COLUMN_GAP
    height = _EDGE * 2 + max(1, graph.rows) * (_NODE_H + _ROW_GAP) - _ROW_GAP
    places = {node.task.id: _corner(node) for node in graph.nodes}
    label = f"Graph of {len(graph.nodes)} task{'' if len(graph.nodes) == 1 else 's'}"
    critical = [node.task.id for node in graph.nodes if node.critical]
    if critical:
        label += f", the longest chain has {len(critical)}"
    return _svg(
        "graph",
        label,
        (width, height),
        (
            *(_edge(edge, places) for edge in sorted(graph.edges, key=lambda edge: edge.critical)),
            *(_node(node, places[node.task.id], links) for node in graph.nodes),
        ),
        fixed=True,
        has_links=links is not None,
    )


def gantt_svg(story: Story, *, names: Sequence[str], now_ms: int) -> str:
    """The states of these members over time, one lane each."""
    began = story.began_ms if story.began_ms is not None else now_ms
    length = max(1000, now_ms - began)
    height = len(names) * _LANE_H + _AXIS_H

    def at(moment_ms: float) -> float:
        return _LABEL_W + _PLOT_W * min(1.0, max(0.0, (moment_ms - began) / length))

    def lanes() -> Iterator[str]:
        yield from _time_axis(length, at_left=_LABEL_W, height=height)
        for number, name in enumerate(names):
            top = number * _LANE_H
            yield (
                f'<text class="lane-name" x="4" y="{top + 17}">{_cut(name, _LABEL_CELLS)}'
                f"<title>{_text(name)}</title></text>"
            )
            yield f'<path class="lane" d="M{_LABEL_W} {top + _LANE_H}H{_LABEL_W + _PLOT_W}"/>'
            yield from _spans(story.spans.get(name, ()), top, at, began, now_ms)

    return _svg(
        "gantt",
        f"States of {len(names)} members over {duration(length / 1000)}",
        (_LABEL_W + _PLOT_W + _EDGE, height),
        lanes(),
    )


def spend_svg(points: Sequence[SpendingOverTime], *, now_ms: int) -> str:
    """The usage of the team over time: money, or tokens if no price is known."""
    if not points:
        words = "No cost yet."
        text = f'<text class="empty" x="{_EDGE}" y="24">{words}</text>'
        return _svg("spend", words, (_LABEL_W + _PLOT_W, 40), (text,))
    in_money = points[-1].usd > 0
    values = [point.usd if in_money else float(point.tokens) for point in points]
    began, top = points[0].at_ms, max(values) or 1.0
    length = max(1000, now_ms - began)
    last = _amount(values[-1], in_money=in_money)

    def x(moment_ms: int) -> float:
        part = min(1.0, max(0.0, (moment_ms - began) / length))
        return _SPEND_LABEL_W + _PLOT_W * part

    def y(value: float) -> float:
        return _EDGE + (_SPEND_H - _EDGE) * (1 - value / top)

    def parts() -> Iterator[str]:
        yield from _time_axis(length, at_left=_SPEND_LABEL_W, height=_SPEND_H + _AXIS_H)
        for part in (0.0, 0.5, 1.0):
            words = _amount(top * part, in_money=in_money)
            yield (
                f'<text class="tick" text-anchor="end" x="{_SPEND_LABEL_W - 6}" '
                f'y="{y(top * part) + 4:.1f}">{words}</text>'
                f'<path class="lane" d="M{_SPEND_LABEL_W} {y(top * part):.1f}h{_PLOT_W}"/>'
            )
        steps = "".join(
            f"H{x(points[i].at_ms):.1f}V{y(values[i]):.1f}" for i in _sample(len(points))
        )
        line = f"M{_SPEND_LABEL_W} {y(0):.1f}{steps}H{_SPEND_LABEL_W + _PLOT_W}"
        yield f'<path class="spent-area" d="{line}V{y(0):.1f}Z"/>'
        yield f'<path class="spent" d="{line}"/>'

    label = f"{'Cost' if in_money else 'Tokens'} over {duration(length / 1000)}, {last} in total"
    return _svg("spend", label, (_SPEND_LABEL_W + _PLOT_W + _EDGE, _SPEND_H + _AXIS_H), parts())


def _svg(
    kind: str,
    label: str,
    size: tuple[int, int],
    parts: Iterable[str],
    *,
    fixed: bool = False,
    has_links: bool = False,
) -> str:
    """One drawing. With links it is a group, because links in an image cannot be followed."""
    role = "group" if has_links else "img"
    dimensions = f' width="{size[0]}" height="{size[1]}"' if fixed else ""
    return (
        f'<svg class="drawing drawing-{kind}" xmlns="http://www.w3.org/2000/svg" role="{role}" '
        f'aria-label="{_text(label)}" viewBox="0 0 {size[0]} {size[1]}"{dimensions}>'
        f"<title>{_text(label)}</title>{''.join(parts)}</svg>"
    )


def _corner(node: GraphNode) -> tuple[int, int]:
    return (
        _EDGE + node.column * (_NODE_W + _COLUMN_GAP),
        _EDGE + node.row * (_NODE_H + _ROW_GAP),
    )


def _edge(edge: Edge, places: dict[str, tuple[int, int]]) -> str:
    (from_x, from_y), (to_x, to_y) = places[edge.before], places[edge.after]
    from_x, from_y, to_y = from_x + _NODE_W, from_y + _NODE_H // 2, to_y + _NODE_H // 2
    bend = _COLUMN_GAP // 2
    critical = " critical" if edge.critical else ""
    return (
        f'<path class="edge{critical}" '
        f'd="M{from_x} {from_y}C{from_x + bend} {from_y} {to_x - bend} {to_y} {to_x} {to_y}"/>'
    )


def _node(node: GraphNode, corner: tuple[int, int], links: Callable[[str], str] | None) -> str:
    task, (x, y) = node.task, corner
    critical = " critical" if node.critical else ""
    state = state_word(task.state)
    owner = f"{state} · {task.owner}" if task.owner else state
    whole = f"{task.id}: {task.subject} ({owner})"
    if node.critical:
        whole += ", on the longest chain"
    drawn = (
        f'<g class="node state-{task.state}{critical}"><title>{_text(whole)}</title>'
        f'<rect x="{x}" y="{y}" width="{_NODE_W}" height="{_NODE_H}" rx="6"/>'
        f'<path class="mark" d="M{x + 4} {y + 8}v{_NODE_H - 16}"/>'
        f'<text class="subject" x="{x + 14}" y="{y + 22}">'
        f"{_cut(f'#{task.id} {task.subject}', _SUBJECT_CELLS)}</text>"
        f'<text class="owner" x="{x + 14}" y="{y + 40}">{_cut(owner, _OWNER_CELLS)}</text></g>'
    )
    if links is None:
        return drawn
    return f'<a href="{escape(links(task.id))}">{drawn}</a>'


def _spans(
    spans: Sequence[Span], top: int, at: Callable[[float], float], began: int, now_ms: int
) -> Iterator[str]:
    drawn_to = 0.0
    for span in spans:
        end = now_ms if span.to_ms is None else span.to_ms
        left, right = at(span.from_ms), at(end)
        if span.to_ms is not None and right < drawn_to + _THINNEST / 2:
            # It would be too thin to see.
            continue
        drawn_to = right
        words = (
            f"{span.state} for {duration((end - span.from_ms) / 1000)}, "
            f"starting at {duration((span.from_ms - began) / 1000)}"
        )
        yield (
            f'<rect class="span state-{span.state}" x="{left:.1f}" y="{top + 5}" '
            f'width="{max(_THINNEST, right - left):.1f}" height="{_LANE_H - 9}" rx="2">'
            f"<title>{words}</title></rect>"
        )


def _time_axis(length_ms: int, *, at_left: int, height: int) -> Iterator[str]:
    seconds = length_ms / 1000
    step = next((step for step in _STEPS_S if seconds / step <= _TICKS), 0)
    if not step:
        days = int(seconds / 86_400 / _TICKS) + 1
        step = days * 86_400
    for number in range(int(seconds / step) + 1):
        x = at_left + _PLOT_W * number * step / seconds
        words = duration(number * step) if number else "0"
        anchor = "end" if x > at_left + _PLOT_W - 40 else "start"
        yield (
            f'<path class="grid" d="M{x:.1f} 0V{height - _AXIS_H}"/>'
            f'<text class="tick" text-anchor="{anchor}" x="{x:.1f}" y="{height - 7}">{words}</text>'
        )


def _sample(length: int) -> Sequence[int]:
    """The numbers of the points to draw: not too many, and always the last one."""
    if length <= _POINTS_MAX:
        return range(length)
    return [*range(0, length - 1, -(-length // _POINTS_MAX)), length - 1]


def _amount(value: float, *, in_money: bool) -> str:
    if not in_money:
        return count(value)
    return f"${value:.2f}" if value >= 1 or not value else f"${value:.3f}"


def _cut(text: str, cells: int) -> str:
    """As much of a text as fits on one line, escaped."""
    line, used = one_line(text), 0
    for number, char in enumerate(line):
        used += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > cells:
            return f"{escape(line[: number - 1])}…"
    return escape(line)


def _text(text: str) -> str:
    return escape(one_line(text))
