"""Agents, tasks and happenings as lines that fit a terminal of any size.

Every line is cut and padded here, so that a picture has exactly the size it is given and nothing
on the screen moves but what has changed. Glyphs say without colour what colours say too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from rich.text import Text

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.doors.cli.output.screen import STYLES
from bullpen.protocol.names import task_order
from bullpen.protocol.presence import ENDED
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.team.requests.handles import handles
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks import check_rules, rules
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.task_state import (
    FINISHED,
    TASK_STATES,
    TaskState,
    state_word,
    task_states,
)
from bullpen.view.text import one_line

T = TypeVar("T")

_FINE = {
    "starting": "◌", "working": "●", "waiting": "◐", "idle": "○", "failed": "✗", "lost": "✗",
    "stopped": "■", "suspended": "‖", "finished": "✓", "done": "✓", "unknown": "·",
    "merged": "✓", "queued": "◔", "in_progress": "▸", "ready": "○", "blocked": "·",
    "unproven": "?", "given_up": "✗",
    "full": "━", "empty": "─", "rule": "─", "more": "…", "then": " › ",
}  # fmt: skip
_PLAIN = {
    "starting": "^", "working": "*", "waiting": "~", "idle": "o", "failed": "x", "lost": "x",
    "stopped": "#", "suspended": "=", "finished": "+", "done": "+", "unknown": ".",
    "merged": "+", "queued": "%", "in_progress": ">", "ready": "o", "blocked": ".",
    "unproven": "?", "given_up": "x",
    "full": "=", "empty": "-", "rule": "-", "more": "~", "then": " > ",
}  # fmt: skip
_TASK_STYLES = {
    "merged": "muted",
    "done": "muted",
    "unproven": "attention",
    "given_up": "bad",
    "queued": "attention",
    "in_progress": "attention",
    "ready": "",
    "blocked": "muted",
}
_URGENCY = ("failed", "lost", "waiting", "working", "starting", "idle", "unknown", "stopped")

_NAME_MAX = 20
_STATE_WIDTH = 14
_NUMBER_WIDTH = 7
_UNREAD_WIDTH = 6
_HOW_MAX = 20
_SUBJECT_LEAST = 20
_WIDE = 110
"""From this width on there is room for where an agent runs."""


class LineWriter:
    """Writes lines of a given width, with the characters that the terminal has."""

    def __init__(self, width: int, *, encoding: str = "utf-8") -> None:
        self.width = max(1, width)
        self.glyphs = _FINE if encoding.lower().replace("-", "").startswith("utf") else _PLAIN

    def narrower(self, width: int) -> LineWriter:
        """The same for a part of the line."""
        writer = LineWriter(width)
        writer.glyphs = self.glyphs
        return writer

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
    writer: LineWriter,
    views: Sequence[AgentView],
    snapshot: Snapshot,
    *,
    now_ms: int,
    room: int | None,
) -> list[Text]:
    """A head and a line for each agent; with too little room, the ones to look at first."""
    shown, hidden = _pick(views, None if room is None else room - 1, _urgency)
    states = words.states_of(views, snapshot)
    # What nobody used says nothing: a script costs nothing.
    used = any(words.used_any(view.usage) for view in views)
    columns = _AgentColumns(writer, shown, snapshot, now_ms, states=states, used=used)
    lines = [columns.head(), *map(columns.row, shown)]
    if hidden:
        said = _counted((states[view.name] for view in hidden), "more")
        lines.append(writer.text(f"  {said}", "muted"))
    return lines


class _AgentColumns:
    """Where each column of the agents begins and ends on lines of one width."""

    def __init__(
        self,
        writer: LineWriter,
        views: Sequence[AgentView],
        snapshot: Snapshot,
        now_ms: int,
        *,
        states: Mapping[str, str],
        used: bool,
    ) -> None:
        self._writer = writer
        self._now_ms = now_ms
        self._states = states
        self._used = used
        # On narrow lines what it does says more than how full its context is.
        self._full = writer.width >= _WIDE and any(view.context is not None for view in views)
        self._numbers = (
            *((("context", _NUMBER_WIDTH),) if self._full else ()),
            *(_USED if used else ()),
            ("unread", _UNREAD_WIDTH),
        )
        self._subjects = words.subjects_of(snapshot)
        self._colors = words.colors_of(snapshot)
        self._name = (
            min(max(8, writer.width // 6), _NAME_MAX, max([5, *(len(view.name) for view in views)]))
            + 1
        )
        how = max([0, *(len(_how(view)) for view in views)])
        self._how = min(_HOW_MAX, max(6, how)) + 2 if writer.width >= _WIDE else 0
        numbers = sum(width + 1 for _, width in self._numbers)
        self._doing = writer.width - 2 - self._name - _STATE_WIDTH - self._how - numbers

    def head(self) -> Text:
        """The names of the columns."""
        fit = self._writer.fit
        return self._line(
            fit("", 2),
            fit("agent", self._name, "muted"),
            fit("state", _STATE_WIDTH, "muted"),
            fit("doing", self._doing, "muted"),
            fit("  driver", self._how, "muted"),
            [fit(name, width, "muted", right=True) for name, width in self._numbers],
        )

    def row(self, view: AgentView) -> Text:
        """One agent."""
        fit = self._writer.fit
        state = self._states[view.name]
        style = words.STATE_STYLES.get(state, "muted")
        since = sentences.age(view.since_ms, self._now_ms)
        unread = "?" if view.unread is None else str(view.unread or "")
        cells = [words.context(view)] if self._full else []
        if self._used:
            any_used = words.used_any(view.usage)
            cells += [words.tokens(view.usage), words.money(view.usage)] if any_used else ["", ""]
        return self._line(
            fit(f"{self._writer.glyphs[state]} ", 2, style),
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
        then = self._writer.glyphs["then"] if task and now else ""
        room = self._doing - len(then) - len(one_line(now))
        if then and len(one_line(task)) > room:
            # What it does now says more than the subject, which the task list shows too.
            if now == words.THINKING:
                then = now = ""
            elif room < _SUBJECT_LEAST:
                task = f"#{view.tasks[0]}"
            else:
                task = self._writer.fit(task, room).plain
        line = self._writer.fit(task, min(len(one_line(task)), self._doing))
        line.append(then, style="dim")
        line.append_text(self._writer.fit(now, self._doing - line.cell_len, style))
        return line

    def _line(self, *parts: Text | list[Text]) -> Text:
        *left, numbers = parts
        cells = [part for part in left if isinstance(part, Text)]
        for number in numbers if isinstance(numbers, list) else ():
            cells += [Text(" "), number]
        return self._writer.line(*cells)


_USED = (("tokens", _NUMBER_WIDTH), ("cost", _NUMBER_WIDTH))


def request_lines(
    writer: LineWriter, requests: Sequence[Request], snapshot: Snapshot, *, elsewhere: str
) -> list[Text]:
    """A line for each request: who waits for whom and what for, and what a person can type."""
    short = handles(snapshot.pending)
    lines = []
    for request in requests:
        type_it = f"bullpen approve {short[request.id]}{elsewhere}"
        right = Text(type_it if sentences.is_for_people(request) else "", style="bold green")
        left = Text(f"! {one_line(sentences.waits(request))}", style="yellow")
        lines.append(writer.ends(left, right))
    return lines


def _activity_style(view: AgentView) -> str:
    if view.state in ENDED:
        return words.STATE_STYLES.get(view.state, "muted")
    return "" if view.tool or view.state == "waiting" else "muted"


def _how(view: AgentView) -> str:
    return "/".join(part for part in (view.driver, view.backend) if part)


def task_lines(writer: LineWriter, tasks: Sequence[Task], *, room: int | None) -> list[Text]:
    """A line for each task; with too little room, the open ones first."""
    if not tasks:
        return [writer.text("  No tasks yet.", "muted")]
    states = task_states(tasks)
    ordered = sorted(tasks, key=lambda task: task_order(task.id))
    shown, hidden = _pick(ordered, room, lambda task: TASK_STATES.index(states[task.id]))
    width = max((len(task.id) for task in shown), default=0)
    by_id = {task.id: task for task in tasks}
    lines = [_task_line(writer, task, states[task.id], by_id, width) for task in shown]
    if hidden:
        said = _counted((state_word(states[task.id]) for task in hidden), "more")
        lines.append(writer.text(f"  {said}", "muted"))
    return lines


def _task_line(
    writer: LineWriter, task: Task, state: TaskState, by_id: Mapping[str, Task], id_width: int
) -> Text:
    style = _TASK_STYLES[state]
    waits = ", ".join(f"#{blocker}" for blocker in rules.open_blockers(task, by_id.get))
    after = f"after {waits}" if state == "blocked" else task.owner or ""
    if state == "ready" and "came back" in check_rules.said_status(task):
        after = f"came back to {task.owner}" if task.owner else "came back"
    side = min(24, max(0, writer.width // 3), len(after))
    return writer.line(
        writer.fit(f"{writer.glyphs[state]} ", 2, "good" if state in FINISHED else style),
        writer.fit(task.id, id_width, "muted", right=True),
        writer.fit(f" {task.subject}", writer.width - 2 - id_width - side - 1, style),
        Text(" "),
        writer.fit(after, side, "muted", right=True),
    )


def progress_line(writer: LineWriter, tasks: Sequence[Task]) -> Text:
    """A bar, and how many tasks are how far."""
    counts = Counter(task_states(tasks).values())
    finished = sum(counts[state] for state in FINISHED)
    said = [f"{finished} of {len(tasks)} done"]
    said += [
        f"{counts[state]} {state_word(state)}"
        for state in TASK_STATES
        if counts[state] and state not in FINISHED
    ]
    about = ", ".join(said)
    bar = max(0, min(40, writer.width - len(about) - 12))
    done = bar * finished // len(tasks) if tasks else 0
    title = Text("Tasks ", style="bold")
    return writer.line(
        title,
        Text(writer.glyphs["full"] * done, style="green"),
        Text(writer.glyphs["empty"] * (bar - done), style="dim"),
        writer.fit(f"  {about}", writer.width - bar - title.cell_len),
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
