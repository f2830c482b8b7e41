"""One member: its transcript as it grows, its messages and its last actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Static

from bullpen.agents.system import processes
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.line_view import TextScreen
from bullpen.doors.tui.member_keys import MEMBER_BINDINGS
from bullpen.doors.tui.panes.feeds import messages_of
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, clock, styled
from bullpen.errors import BullpenError
from bullpen.view import agent_words, sentences
from bullpen.view.cards import MemberCard
from bullpen.view.transcript import STYLES, TranscriptTail, moment, said

if TYPE_CHECKING:
    from bullpen.doors.tui.key_actions import KeyActions

_ROWS_AT_FIRST = 400
_LOOK_EVERY_S = 0.5
_MESSAGES = 60


class MemberScreen(Screen[None]):
    """One member, kept up to date while it is open."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "dismiss", "Back"),
        Binding("1", "part('transcript')", "Transcript"),
        Binding("2", "part('mail')", "Messages"),
        Binding("3", "part('actions')", "Actions"),
        *MEMBER_BINDINGS,
    ]

    def __init__(
        self,
        late_app: LateApp,
        team: str,
        name: str,
        terminal: TerminalText,
        key_actions: Callable[[], KeyActions],
        look: Callable[[], TeamLook | None],
    ) -> None:
        super().__init__()
        self._late_app, self._team, self._member = late_app, team, name
        self._terminal, self._key_actions, self._look = terminal, key_actions, look
        self._facts = Static(id="facts")
        self._transcript = TextScreen(terminal, follow=True, dom_id="transcript")
        self._mail = TextScreen(terminal, follow=True, dom_id="mail")
        self._actions = TextScreen(terminal, dom_id="actions")
        self._day = ""

    def compose(self) -> ComposeResult:
        yield self._facts
        with ContentSwitcher(initial="transcript"):
            yield self._transcript
            yield self._mail
            yield self._actions
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._transcript.focus()
        self.call_after_refresh(self._show_member)
        self.run_worker(self._follow_transcript(), exit_on_error=False)
        self.set_interval(1.0, self._show_member)

    def _show_member(self) -> None:
        look, card = self._look(), self._card()
        if look is None or not self.is_current:
            return
        if card is None:
            self._facts.update(styled(f"{self._terminal.fit(self._member, 60)} has left the team."))
            return
        self._facts.update(_facts(card, look, self._terminal))
        actions = [(action, "") for action in card.actions]
        self._actions.read(actions or [("No actions reported yet.", "muted")])
        self._mail.read(_messages(look, self._member))

    async def _follow_transcript(self) -> None:
        shown, card = self._transcript, self._card()
        if card is not None and card.host not in (None, processes.host_name()):
            where = f"{self._member} runs on {card.host}. Its transcript is on that machine."
            shown.read([(where, "attention")])
            return
        try:
            path = await self._late_app.app.supervisor(self._team).transcript(self._member)
            tail = TranscriptTail(path)
            rows = await to_thread.run_sync(tail.last, _ROWS_AT_FIRST)
            begun = bool(rows)
            none = (
                f"{self._member} has no transcript yet. It appears here once {self._member} works."
            )
            shown.read(self._blocks(rows) if begun else [(none, "muted")])
            shown.action_to_end(True)
            while True:
                rows = await to_thread.run_sync(tail.more)
                if rows and not begun:
                    shown.read([])
                    begun = True
                if rows:
                    shown.read_on(self._blocks(rows))
                await anyio.sleep(_LOOK_EVERY_S)
        except (BullpenError, OSError) as error:
            shown.read([(f"Cannot read the transcript of {self._member}: {error}", "bad")])

    def _card(self) -> MemberCard | None:
        look = self._look()
        members = () if look is None else look.scene.members
        return next((card for card in members if card.name == self._member), None)

    def _blocks(self, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
        blocks: list[tuple[str, str]] = []
        for row in rows:
            text, kind = said(row), str(row.get("kind", ""))
            if not text:
                continue
            day, time = moment(row.get("time"))
            if day and day != self._day:
                self._day = day
                blocks.append((day, "muted"))
            blocks.append((f"{time} {kind}: {text}", STYLES.get(kind, "")))
        return blocks

    def action_part(self, part: str) -> None:
        self.query_one(ContentSwitcher).current = part
        self.query_one(f"#{part}", TextScreen).focus()

    def action_message(self) -> None:
        self._key_actions().message(self._member)

    def action_assign(self) -> None:
        self._key_actions().assign(None, self._member)

    def action_stop(self) -> None:
        self._key_actions().stop(self._member)

    def action_mode(self) -> None:
        self._key_actions().mode(self._member)

    def action_attach(self) -> None:
        self._key_actions().attach(self._member)


def _facts(card: MemberCard, look: TeamLook, terminal: TerminalText) -> Text:
    """The member in a few lines: name, state, program, usage, tasks."""
    lead = f"{terminal.glyph('lead')} " if card.lead else ""
    name = terminal.fit(look.story.shown_name(card.name), 60)
    line = styled(f"{lead}{name}  ", card.color or "strong")
    line.append_text(styled(terminal.state(card.state), STATE_STYLES[card.state]))
    since = sentences.age(card.since_ms, look.now_ms)
    if since:
        line.append_text(styled(f" for {since}", "muted"))
    if card.detail:
        line.append_text(styled(f"  {terminal.fit(card.detail, 200)}"))
    about = [
        f"{word} {terminal.fit(value, 60)}"
        for word, value in (
            ("driver", card.driver), ("model", card.model), ("backend", card.backend),
            ("host", card.host),
        )
        if value
    ]  # fmt: skip
    if card.context is not None:
        about.append(f"context {card.context:.0%}")
    about += [agent_words.used(card.usage), f"{card.unread or 0} unread"]
    line.append_text(styled("\n" + ", ".join(about), "muted"))
    subjects = {task.id: task.activity or task.subject for task in look.scene.tasks}
    for task in card.tasks[:3]:
        line.append_text(styled(f"\n#{task} {terminal.fit(subjects.get(task, ''), 200)}"))
    line.no_wrap = False
    return line


def _messages(look: TeamLook, name: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    for sent in messages_of(look.story, name, _MESSAGES):
        head = f"{clock(sent.at_ms)} {look.story.shown_route(sent)}:"
        body = sentences.body(sent.message)
        blocks += [(head, "strong"), (body, "muted" if sent.kind else ""), ("", "")]
    return blocks or [("No messages yet.", "muted")]
