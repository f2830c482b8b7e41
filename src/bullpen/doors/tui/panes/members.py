"""The members of a team as a table that redraws only cells that changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable

from bullpen.doors.tui.panes.pane import Pane, Selected, TeamLook, among
from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, styled
from bullpen.view import agent_words
from bullpen.view.cards import MemberCard
from bullpen.view.sentences import age

_NAME_MAX = 20
_TASK_LEAST, _TASK_MAX = 16, 34
_GAP = 1


@dataclass(frozen=True, slots=True)
class _Column:
    """A column; the highest rank is dropped first on a narrow screen. Width 0 takes the rest."""

    key: str
    title: str
    width: int
    rank: int = 0


_COLUMNS = (
    _Column("name", "Member", _NAME_MAX),
    _Column("state", "State", 10),
    _Column("since", "Since", 5),
    _Column("task", "Task", _TASK_LEAST, 1),
    _Column("context", "Context", 7, 3),
    _Column("tokens", "Tokens", 6, 4),
    _Column("spend", "Cost", 8, 2),
    _Column("mail", "Unread", 6, 5),
    _Column("doing", "Doing", 0),
)
_DOING_LEAST = 16
_RIGHT = ("context", "tokens", "spend", "mail")


def columns_for(width: int, name_width: int) -> list[_Column]:
    """The columns that fit, with their widths; the last column gets what is left."""
    columns = [replace(_COLUMNS[0], width=name_width), *_COLUMNS[1:]]

    def left() -> int:
        return width - sum(each.width + _GAP for each in columns if each.width)

    while left() < _DOING_LEAST and any(each.rank for each in columns):
        columns.remove(max(columns, key=lambda each: each.rank))
    for at, each in enumerate(columns):
        if each.key == "task":
            # Half of what is left over is for the subject of the task.
            more = max(0, left() - _DOING_LEAST) // 2
            columns[at] = replace(each, width=min(_TASK_MAX, each.width + more))
    # Also on a narrow screen with long names, some of it stays visible.
    columns[-1] = replace(columns[-1], width=max(left(), _DOING_LEAST) - _GAP)
    return columns


class _Table(DataTable[Text]):
    """A table in which Home and End go to the first and the last row."""

    BINDINGS = [  # noqa: RUF012
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]


class MembersPane(Pane):
    """Who is in the team and what each does."""

    def __init__(self, terminal: TerminalText) -> None:
        self._table = _Table(cursor_type="row", cell_padding=0)
        super().__init__(terminal, dom_id="members", main=self._table)
        self._columns: list[_Column] = []
        self._shape: tuple[int, int] = (0, 0)
        self._rows: dict[str, dict[str, str]] = {}
        self._look: TeamLook | None = None
        self._cards: dict[str, MemberCard] = {}

    def compose(self) -> ComposeResult:
        yield self._table

    def move(self, step: int) -> None:
        """Select the next member, or the previous one."""
        self._table.move_cursor(row=max(0, self._table.cursor_row + step))

    def on_resize(self) -> None:
        if self._look is not None:
            self.show(self._look)

    def show(self, look: TeamLook) -> None:
        self._look = look
        subjects = {task.id: task.activity or task.subject for task in look.scene.tasks}
        cards = [card for card in look.scene.members if self._is_wanted(card)]
        self._cards = {card.name: card for card in cards}
        name_width = max((len(self._shown_name(card)) + 2 * card.lead for card in cards), default=0)
        shape = (self.size.width, min(_NAME_MAX, max(8, name_width)))
        if shape != self._shape:
            self._shape = shape
            self._columns = columns_for(*shape)
            self._rebuild()
        if list(self._rows) != list(self._cards):
            self._rebuild()
        for card in cards:
            self._update(card, subjects, look.now_ms)

    def age(self, now_ms: int) -> None:
        table = self._table
        top = int(table.scroll_offset.y)
        for name in list(self._rows)[top : top + table.size.height]:
            text = age(self._cards[name].since_ms, now_ms)
            if text != self._rows[name].get("since"):
                self._put(name, "since", text, styled(text))

    def selected(self) -> Selected:
        names, row = list(self._rows), self._table.cursor_row
        return Selected(member=names[row] if 0 <= row < len(names) else None)

    def _is_wanted(self, card: MemberCard) -> bool:
        return among(
            self.words, card.name, self._shown_name(card), card.state, card.detail, card.driver,
            card.host, *card.tasks,
        )  # fmt: skip

    def _shown_name(self, card: MemberCard) -> str:
        return card.name if self._look is None else self._look.story.shown_name(card.name)

    def _rebuild(self) -> None:
        """Build the table again; the cursor stays on its member."""
        table, before = self._table, self.selected().member
        table.clear(columns=True)
        for column in self._columns:
            table.add_column(styled(column.title), key=column.key, width=column.width + _GAP)
        self._rows = {}
        for name in self._cards:
            table.add_row(*(Text() for _ in self._columns), key=name)
            self._rows[name] = {}
        if before in self._rows:
            table.move_cursor(row=list(self._rows).index(before), animate=False)

    def _update(self, card: MemberCard, subjects: Mapping[str, str], now_ms: int) -> None:
        for column in self._columns:
            text, style = self._cell(column.key, card, subjects, now_ms)
            mark = text if column.key == "since" else f"{style}\0{text}"
            if mark != self._rows[card.name].get(column.key):
                right = column.key in _RIGHT
                shown = self.terminal.column(text, column.width, style, right=right)
                self._put(card.name, column.key, mark, shown)

    def _put(self, name: str, column: str, mark: str, text: Text) -> None:
        self._rows[name][column] = mark
        self._table.update_cell(name, column, text, update_width=False)

    def _cell(
        self, key: str, card: MemberCard, subjects: Mapping[str, str], now_ms: int
    ) -> tuple[str, str]:
        match key:
            case "name":
                lead = f"{self.terminal.glyph('lead')} " if card.lead else ""
                return f"{lead}{self._shown_name(card)}", card.color or ""
            case "state":
                return self.terminal.state(card.state), STATE_STYLES[card.state]
            case "since":
                return age(card.since_ms, now_ms), ""
            case "task":
                return _task_words(card, subjects), ""
            case "context":
                return _context(card.context)
            case "tokens":
                return agent_words.tokens(card.usage) if card.usage.tokens else "", ""
            case "spend":
                return agent_words.money(card.usage) if agent_words.used_any(card.usage) else "", ""
            case "mail":
                return str(card.unread or ""), "attention"
            case _:
                return card.detail or "", "muted" if card.state in ("idle", "stopped") else ""


def _task_words(card: MemberCard, subjects: Mapping[str, str]) -> str:
    """The task that a member is working on, and how many more it has."""
    if not card.tasks:
        return ""
    first, *more = card.tasks
    others = f" (+{len(more)})" if more else ""
    return f"#{first}{others} {subjects.get(first, '')}".rstrip()


def _context(part: float | None) -> tuple[str, str]:
    if part is None:
        return "", ""
    return f"{part:.0%}", "bad" if part >= 0.9 else "attention" if part >= 0.7 else ""
