"""The left column: who is in the team and what each does, and the tasks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from bullpen.doors.tui.line_view import Lines
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, styled
from bullpen.view.cards import MemberCard, TaskCard
from bullpen.view.task_state import FINISHED, TASK_STATES

_NAME_LEAST, _NAME_MAX = 6, 14
_OWNER_MAX = 10
_ENDED = ("stopped", "failed", "lost")


class TeamList(Lines):
    """The members. The one under the cursor is the chosen one."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(dom_id="team")
        self._terminal = terminal
        self._look: TeamLook | None = None
        self._cards: tuple[MemberCard, ...] = ()
        self._asks: dict[str, str] = {}
        self._subjects: dict[str, str] = {}
        self._tasks: object = None
        self._width = _NAME_LEAST
        self.recipient: str | None = None

    @property
    def chosen(self) -> str | None:
        at = self.cursor
        return self._cards[at].name if at is not None and at < len(self._cards) else None

    def show(self, look: TeamLook) -> None:
        """Show the members as they are now; the cursor stays on its member."""
        before, had_agents = self.chosen, any(card.driver for card in self._cards)
        self._look, self._cards = look, look.scene.members
        if not had_agents and any(card.driver for card in self._cards):
            # Until the first agent there was nobody to choose.
            before = None
        self._asks = {ask.sender: _asks(ask.kind, ask.about) for ask in look.scene.asks}
        if look.scene.tasks is not self._tasks:
            self._tasks = look.scene.tasks
            self._subjects = {task.id: task.activity or task.subject for task in look.scene.tasks}
        longest = max((len(look.name(card.name)) for card in self._cards), default=0)
        self._width = min(_NAME_MAX, max(_NAME_LEAST, longest))
        self.put(max(1, len(self._cards)), self._row, at=self._place(before))

    def choose(self, name: str) -> None:
        """Move the cursor to a member."""
        for number, card in enumerate(self._cards):
            if card.name == name:
                self.go_to(number)

    def _place(self, before: str | None) -> int | None:
        """Where the cursor belongs if it must move: at first on the lead or the first agent."""
        if before is None:
            agents = [number for number, card in enumerate(self._cards) if card.driver]
            return agents[0] if agents else 0
        for number, card in enumerate(self._cards):
            if card.name == before:
                return number if number != self.cursor else None
        return None

    def _row(self, number: int, width: int) -> Text:
        if self._look is None or not self._cards:
            return styled(" No members yet.", "muted")
        card, terminal = self._cards[number], self._terminal
        state = "waiting" if card.name in self._asks else card.state
        mark = terminal.glyph("lead" if card.lead else state)
        line = styled(f"{mark} ", STATE_STYLES[state])
        name = self._look.name(card.name)
        line.append_text(terminal.column(name, min(self._width, width - 2), card.color or ""))
        room = width - 3 - self._width
        if room > 2:
            text, style = self._doing(card)
            line.append_text(styled(f" {terminal.fit(text, room)}", style))
        return line

    def _doing(self, card: MemberCard) -> tuple[str, str]:
        """What a member does, in a few words."""
        if card.name in self._asks:
            return self._asks[card.name], "attention"
        if card.driver is None and card.state == "unknown":
            return "", ""
        if card.state in _ENDED:
            cause = f": {self._said(card)}" if card.detail else ""
            return f"{card.state}{cause}", STATE_STYLES[card.state]
        tasks = [f"#{task} {self._subjects.get(task, '')}".rstrip() for task in card.tasks[:1]]
        if card.state == "working":
            dot = f" {self._terminal.glyph('dot')} "
            return dot.join([*tasks, *([self._said(card)] if card.detail else [])]) or "working", ""
        if card.state == "idle":
            return " ".join(["idle", *tasks]), "muted"
        return self._said(card) or card.state, STATE_STYLES[card.state]

    def _said(self, card: MemberCard) -> str:
        detail = card.detail or ""
        return detail if self._look is None else self._look.words(detail)


class TaskList(Lines):
    """The tasks, those that somebody works on first."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(marked=False, dom_id="tasks")
        self._terminal = terminal
        self._look: TeamLook | None = None
        self._tasks: object = None
        self._rows: list[TaskCard] = []

    def show(self, look: TeamLook) -> None:
        """Show the tasks as they are now; the cursor stays on its task."""
        before = self.under_cursor
        self._look = look
        at = None
        if look.scene.tasks is not self._tasks:
            self._tasks = look.scene.tasks
            self._rows = _in_order(look.scene.tasks)
            for number, card in enumerate(self._rows):
                if before is not None and card.id == before.id:
                    at = number
                    break
        self.put(max(1, len(self._rows)), self._row, at=at)

    @property
    def under_cursor(self) -> TaskCard | None:
        """The task under the cursor."""
        at = self.cursor
        return self._rows[at] if at is not None and at < len(self._rows) else None

    def _row(self, number: int, width: int) -> Text:
        if self._look is None:
            return styled("")
        if not self._rows:
            return styled(self._terminal.fit(" None yet: /task TEXT", width), "muted")
        card, terminal = self._rows[number], self._terminal
        style = STATE_STYLES[card.state]
        line = styled(f"{terminal.glyph(card.state)} {card.id} ", style)
        aside = terminal.fit(self._aside(card, self._look), min(_OWNER_MAX, width // 3))
        room = max(4, width - line.cell_len - len(aside) - 1)
        subject = card.activity or card.subject
        line.append_text(terminal.column(subject, room, "muted" if card.state in FINISHED else ""))
        line.append_text(styled(f" {aside}", "muted"))
        return line

    def _aside(self, card: TaskCard, look: TeamLook) -> str:
        if card.waits_for:
            more = "+" if len(card.waits_for) > 1 else ""
            return f"after {card.waits_for[0]}{more}"
        return look.name(card.owner) if card.owner else ""


def first_recipient(look: TeamLook) -> str | None:
    """To whom a person writes at first: the lead, or the first agent."""
    others = [card for card in look.scene.members if look.name(card.name) != "you"]
    ranked = sorted(others, key=lambda card: (not card.lead, card.driver is None))
    return ranked[0].name if ranked else None


def _in_order(tasks: Sequence[TaskCard]) -> list[TaskCard]:
    place = {state: number for number, state in enumerate(TASK_STATES)}
    return sorted(tasks, key=lambda card: place[card.state])


def _asks(kind: str, about: str) -> str:
    """What a member waits for, in a word or two."""
    match kind:
        case "permission":
            return f"asks: {about.partition(' ')[0]}"
        case "plan":
            return "asks: plan"
        case "question":
            return "asks: a question"
        case _:
            return "asks to end"
