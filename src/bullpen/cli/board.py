"""Agents, tasks and happenings as lines that fit a terminal of any size.

Every line is cut and padded here, so that a picture has exactly the size it is given and nothing
on the screen moves but what has changed. Glyphs say without colour what colours say too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from bullpen.cli.screen import STYLES
from bullpen.protocol.names import task_order
from bullpen.protocol.task import Task
from bullpen.team import check_rules, rules
from bullpen.team.request_handles import handles
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.text import one_line

if TYPE_CHECKING:
    from bullpen.agents.rollcall import AgentView
    from bullpen.protocol.request import Request
    from bullpen.team.snapshot import Snapshot

T = TypeVar("T")

_FINE = {
    "starting": "◌", "working": "●", "waiting": "◐", "idle": "○", "failed": "✗", "lost": "✗",
    "stopped": "■", "suspended": "‖", "finished": "✓", "done": "✓", "unknown": "·",
    "completed": "✓", "queued": "◔", "in_progress": "▸", "ready": "○", "blocked": "·",
    "full": "━", "empty": "─", "rule": "─", "more": "…", "then": " › ",
}  # fmt: skip
_PLAIN = {
    "starting": "^", "working": "*", "waiting": "~", "idle": "o", "failed": "x", "lost": "x",
    "stopped": "#", "suspended": "=", "finished": "+", "done": "+", "unknown": ".",
    "completed": "+", "queued": "%", "in_progress": ">", "ready": "o", "blocked": ".",
    "full": "=", "empty": "-", "rule": "-", "more": "~", "then": " > ",
}  # fmt: skip
_TASK_STYLES = {
    "completed": "muted",
    "queued": "attention",
    "in_progress": "attention",
    "ready": "",
    "blocked": "muted",
}
_URGENCY = ("failed", "lost", "waiting", "working", "starting", "idle", "unknown", "stopped")
_OPENNESS = ("in_progress", "ready", "queued", "blocked", "completed")

_NAME_MAX = 20
_STATE_WIDTH = 14
_NUMBER_WIDTH = 7
_MAIL_WIDTH = 4
_HOW_MAX = 20
_SUBJECT_LEAST = 20
_WIDE = 110
"""From this width on there is room for where an agent runs."""


class Pen:
    """Writes lines of a given width, with the characters that the terminal has."""

    def __init__(self, width: int, *, encoding: str = "utf-8") -> None:
        self.width = max(1, width)
        self.glyphs = _FINE if encoding.lower().replace("-", "").startswith("utf") else _PLAIN

    def narrower(self, width: int) -> Pen:
        """The same for a part of the line."""
        pen = Pen(width)
        pen.glyphs = self.glyphs
        return pen

    def fit(self, text: str, width: int, style: str = "", *, right: bool = False) -> Text:
        """`text` on exactly so many columns, cut with an ellipsis if it is longer."""
        line = Text(one_line(text), style=STYLES.get(style, style), no_wrap=True)
        width = max(0, width)
        if line.cell_len > width:
            line.truncate(max(0, width - 1), overflow="crop")
            line.append(self.glyphs["more"] if width else "")
        space = width - line.cell_len
        if right:
            line.pad_left(space)
        else:
            line.pad_right(space)
        return line

    def line(self, *parts: Text) -> Text:
        """Parts beside each other, cut at the end of the line."""
        line = Text("", no_wrap=True).join(parts)
        line.truncate(self.width, overflow="crop", pad=True)
        return line

    def text(self, text: str, style: str = "") -> Text:
        """One text on a line of its own."""
        return self.fit(text, self.width, style)

    def title(self, name: str, about: str = "") -> Text:
        """A line that begins a section, with a rule to its end."""
        line = Text(f"{name} ", style="bold", no_wrap=True)
        line.append(f"{one_line(about)} " if about else "", style="not bold")
        line.append(self.glyphs["rule"] * max(0, self.width - line.cell_len), style="dim not bold")
        return self.line(line)

    def ends(self, left: Text, right: Text) -> Text:
        """One text at each end of the line; the left one is cut if there is no room."""
        room = self.width - right.cell_len - 2
        if room < 0:
            return self.line(right)
        if left.cell_len > room:
            left.truncate(max(0, room - 1), overflow="crop")
            left.append(self.glyphs["more"])
        left.pad_right(room + 2 - left.cell_len)
        return self.line(left, right)


def agent_lines(
    pen: Pen, views: Sequence[AgentView], snapshot: Snapshot, *, now_ms: int, room: int | None
) -> list[Text]:
    """A head and a line for each agent; with too little room, the ones to look at first."""
    shown, hidden = _pick(views, None if room is None else room - 1, _urgency)
    states = words.states_of(views, snapshot)
    # What nobody used says nothing: a script costs nothing.
    used = any(words.used_any(view.usage) for view in views)
    columns = _AgentColumns(pen, shown, snapshot, now_ms, states=states, used=used)
    lines = [columns.head(), *map(columns.row, shown)]
    if hidden:
        said = _counted((states[view.name] for view in hidden), "more")
        lines.append(pen.text(f"  {said}", "muted"))
    return lines


class _AgentColumns:
    """Where each column of the agents begins and ends on lines of one width."""

    def __init__(
        self,
        pen: Pen,
        views: Sequence[AgentView],
        snapshot: Snapshot,
        now_ms: int,
        *,
        states: Mapping[str, str],
        used: bool,
    ) -> None:
        self._pen = pen
        self._now_ms = now_ms
        self._states = states
        self._used = used
        # On narrow lines what it does says more than how full its context is.
        self._full = pen.width >= _WIDE and any(view.context is not None for view in views)
        self._numbers = (
            *((("full", _MAIL_WIDTH),) if self._full else ()),
            *(_USED if used else ()),
            ("mail", _MAIL_WIDTH),
        )
        self._subjects = words.subjects_of(snapshot)
        self._colors = words.colors_of(snapshot)
        self._name = (
            min(max(8, pen.width // 6), _NAME_MAX, max([5, *(len(view.name) for view in views)]))
            + 1
        )
        how = max([0, *(len(_how(view)) for view in views)])
        self._how = min(_HOW_MAX, max(3, how)) + 2 if pen.width >= _WIDE else 0
        numbers = sum(width + 1 for _, width in self._numbers)
        self._doing = pen.width - 2 - self._name - _STATE_WIDTH - self._how - numbers

    def head(self) -> Text:
        """The names of the columns."""
        fit = self._pen.fit
        return self._line(
            fit("", 2),
            fit("agent", self._name, "muted"),
            fit("state", _STATE_WIDTH, "muted"),
            fit("doing", self._doing, "muted"),
            fit("  how", self._how, "muted"),
            [fit(name, width, "muted", right=True) for name, width in self._numbers],
        )

    def row(self, view: AgentView) -> Text:
        """One agent."""
        fit = self._pen.fit
        state = self._states[view.name]
        style = words.STATE_STYLES.get(state, "muted")
        since = sentences.age(view.since_ms, self._now_ms)
        unread = "?" if view.unread is None else str(view.unread or "")
        cells = [words.context(view)] if self._full else []
        if self._used:
            any_used = words.used_any(view.usage)
            cells += [words.tokens(view.usage), words.money(view.usage)] if any_used else ["", ""]
        return self._line(
            fit(f"{self._pen.glyphs[state]} ", 2, style),
            fit(view.name, self._name - 1, self._colors.get(view.name, "strong")).append(" "),
            fit(f"{state:<9} {since:>3}", _STATE_WIDTH, style),
            self._activity(view),
            fit(f"  {_how(view)}", self._how, "muted"),
            [
                fit(cell, width, right=True)
                for cell, (_, width) in zip([*cells, unread], self._numbers, strict=True)
            ],
        )

    def _activity(self, view: AgentView) -> Text:
        task = words.task_of(view, self._subjects)
        now = words.activity(view, self._states[view.name])
        style = _activity_style(view)
        then = self._pen.glyphs["then"] if task and now else ""
        room = self._doing - len(then) - len(one_line(now))
        if then and len(one_line(task)) > room:
            # What it does now says more than the subject, which the task list shows too.
            if now == words.THINKING:
                then = now = ""
            elif room < _SUBJECT_LEAST:
                task = f"#{view.tasks[0]}"
            else:
                task = self._pen.fit(task, room).plain
        line = self._pen.fit(task, min(len(one_line(task)), self._doing))
        line.append(then, style="dim")
        line.append_text(self._pen.fit(now, self._doing - line.cell_len, style))
        return line

    def _line(self, *parts: Text | list[Text]) -> Text:
        *left, numbers = parts
        cells = [part for part in left if isinstance(part, Text)]
        for number in numbers if isinstance(numbers, list) else ():
            cells += [Text(" "), number]
        return self._pen.line(*cells)


_USED = (("tokens", _NUMBER_WIDTH), ("cost", _NUMBER_WIDTH))


def request_lines(
    pen: Pen, requests: Sequence[Request], snapshot: Snapshot, *, elsewhere: str
) -> list[Text]:
    """A line for each request: who waits for whom and what for, and what a person can type."""
    short = handles(snapshot.pending)
    lines = []
    for request in requests:
        type_it = f"bullpen approve {short[request.id]}{elsewhere}"
        right = Text(type_it if sentences.is_for_people(request) else "", style="bold green")
        left = Text(f"! {one_line(sentences.waits(request))}", style="yellow")
        lines.append(pen.ends(left, right))
    return lines


def _activity_style(view: AgentView) -> str:
    if view.state in words.ENDED:
        return words.STATE_STYLES.get(view.state, "muted")
    return "" if view.tool or view.state == "waiting" else "muted"


def _how(view: AgentView) -> str:
    return "/".join(part for part in (view.driver, view.backend) if part)


def task_lines(pen: Pen, tasks: Sequence[Task], *, room: int | None) -> list[Text]:
    """A line for each task; with too little room, the open ones first."""
    if not tasks:
        return [pen.text("  No tasks yet.", "muted")]
    standing = standings(tasks)
    ordered = sorted(tasks, key=lambda task: task_order(task.id))
    shown, hidden = _pick(ordered, room, lambda task: _OPENNESS.index(standing[task.id]))
    width = max((len(task.id) for task in shown), default=0)
    by_id = {task.id: task for task in tasks}
    lines = [_task_line(pen, task, standing[task.id], by_id, width) for task in shown]
    if hidden:
        said = _counted((_SAID[standing[task.id]] for task in hidden), "more")
        lines.append(pen.text(f"  {said}", "muted"))
    return lines


_SAID = {
    "completed": "done",
    "queued": "to be merged",
    "in_progress": "in progress",
    "ready": "ready",
    "blocked": "blocked",
}


def _task_line(
    pen: Pen, task: Task, standing: str, by_id: Mapping[str, Task], id_width: int
) -> Text:
    style = _TASK_STYLES[standing]
    waits = ", ".join(f"#{blocker}" for blocker in rules.open_blockers(task, by_id.get))
    after = f"after {waits}" if standing == "blocked" else task.owner or ""
    if standing == "ready" and "came back" in check_rules.said_status(task):
        after = f"came back to {task.owner}" if task.owner else "came back"
    side = min(24, max(0, pen.width // 3), len(after))
    return pen.line(
        pen.fit(f"{pen.glyphs[standing]} ", 2, "good" if standing == "completed" else style),
        pen.fit(task.id, id_width, "muted", right=True),
        pen.fit(f" {task.subject}", pen.width - 2 - id_width - side - 1, style),
        Text(" "),
        pen.fit(after, side, "muted", right=True),
    )


def standings(tasks: Iterable[Task]) -> dict[str, str]:
    """How far each task is: completed, queued, in_progress, ready, or blocked by another."""
    by_id = {task.id: task for task in tasks}
    return {task.id: _standing(task, by_id) for task in by_id.values()}


def _standing(task: Task, by_id: Mapping[str, Task]) -> str:
    if task.status == "pending":
        return "blocked" if rules.open_blockers(task, by_id.get) else "ready"
    return "queued" if check_rules.is_queued(task) else task.status


def progress_line(pen: Pen, tasks: Sequence[Task]) -> Text:
    """A bar, and how many tasks are how far."""
    counts = Counter(standings(tasks).values())
    said = [f"{counts['completed']} of {len(tasks)} done"]
    said += [
        f"{counts[name]} {_SAID[name]}"
        for name in ("queued", "in_progress", "ready", "blocked")
        if counts[name]
    ]
    about = ", ".join(said)
    bar = max(0, min(40, pen.width - len(about) - 12))
    done = bar * counts["completed"] // len(tasks) if tasks else 0
    title = Text("Tasks ", style="bold")
    return pen.line(
        title,
        Text(pen.glyphs["full"] * done, style="green"),
        Text(pen.glyphs["empty"] * (bar - done), style="dim"),
        pen.fit(f"  {about}", pen.width - bar - title.cell_len),
    )


def _urgency(view: AgentView) -> int:
    return _URGENCY.index(view.state)


def _pick(
    items: Sequence[T], room: int | None, rank: Callable[[T], int]
) -> tuple[list[T], list[T]]:
    """What there is room for, in its own order, and the rest; the last line says the rest."""
    if room is None or len(items) <= room:
        return list(items), []
    first = sorted(range(len(items)), key=lambda at: rank(items[at]))[: max(0, room - 1)]
    shown = set(first)
    return (
        [item for at, item in enumerate(items) if at in shown],
        [item for at, item in enumerate(items) if at not in shown],
    )


def _counted(names: Iterable[str], what: str) -> str:
    counts = Counter(names)
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{sum(counts.values())} {what}: {said}"
