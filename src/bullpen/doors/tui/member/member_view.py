"""The chosen member: its stream as it comes, its changes, transcript, messages and plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import to_thread
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from bullpen.agents.system import processes
from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.line_view import TextScreen
from bullpen.doors.tui.member.member_texts import (
    facts,
    mail_blocks,
    mail_items,
    title,
    transcript_blocks,
)
from bullpen.doors.tui.member.member_work import ChangesView, PlanView
from bullpen.doors.tui.member.stream_view import StreamView
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.protocol.names import EVERYBODY
from bullpen.view.cards import MemberCard
from bullpen.view.stream import Stream, StreamItem
from bullpen.view.text import visible
from bullpen.view.transcript import TranscriptTail

PARTS = ("stream", "diff", "transcript", "mail", "plan")
FIRST_KEY = 2
"""The function key of the first part."""

_YOU = "You lead this team. Your messages appear here; shift+down shows the next member."
_ROWS_AT_FIRST = 600
_LOOK_EVERY_S = 0.3
_SETTLE_S = 0.05
"""Of several members chosen in a row, only the last one is read."""


class PartTab(Static):
    """The name of a part, to click on."""

    class Wanted(Message):
        """A part was clicked."""

        def __init__(self, part: str) -> None:
            super().__init__()
            self.part = part

    def __init__(self, part: str) -> None:
        key = f"F{PARTS.index(part) + FIRST_KEY}"
        super().__init__(f"{key} {part}", id=f"tab-{part}", markup=False, classes="tab")
        self._part = part

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Wanted(self._part))


class MemberView(Vertical):
    """One member at a time, kept up to date."""

    def __init__(self, terminal: TerminalText, late_app: LateApp) -> None:
        super().__init__(id="member")
        self._terminal, self._late_app = terminal, late_app
        self._facts = Static(id="facts")
        self._stream_view = StreamView(terminal)
        self._changes = ChangesView(terminal, late_app)
        self._transcript = TextScreen(terminal, follow=True, dom_id="transcript")
        self._mail = TextScreen(terminal, follow=True, dom_id="mail")
        self._plan = PlanView(terminal)
        self._part = "stream"
        self._look: TeamLook | None = None
        self._name: str | None = None
        self._stream: Stream | None = None
        self._pending: dict[str, list[StreamItem]] = {}
        self._sent = 0
        self._shown_mail: object = None

    def compose(self) -> ComposeResult:
        yield self._facts
        with ContentSwitcher(initial="stream"):
            yield self._stream_view
            yield self._changes
            yield self._transcript
            yield self._mail
            yield self._plan
        with Horizontal(id="tabs"):
            for part in PARTS:
                yield PartTab(part)

    def on_mount(self) -> None:
        self.border_title = Content(" ")
        self._mark()

    @property
    def part(self) -> str:
        return self._part

    def page(self, by: int) -> None:
        """Scroll what is shown by a page."""
        shown = self._plan.main if self._part == "plan" else self.query_one(f"#{self._part}")
        shown.scroll_relative(y=by * max(1, shown.size.height - 1), animate=False, force=True)

    def to_end(self, last: bool) -> None:
        """Scroll what is shown to its begin or its end."""
        shown = self._plan.main if self._part == "plan" else self.query_one(f"#{self._part}")
        shown.scroll_to(y=shown.max_scroll_y if last else 0, animate=False, force=True)

    @property
    def item(self) -> StreamItem | None:
        """The item of the stream under the cursor, if the stream is shown."""
        return self._stream_view.item if self._part == "stream" else None

    def wait_for(self, words: str) -> None:
        """Show words in the place of a member: the team is not there yet."""
        self._stream_view.begin(words)

    def show(self, look: TeamLook, name: str | None) -> None:
        """Show the team as it is now, with this member chosen."""
        before, self._look = self._look, look
        if name != self._name or (before is not None and _moved(before, look, name)):
            self._name = name
            self._changes.forget()
            self._follow_member()
        self.age(look.now_ms)
        self._draw_part()

    def age(self, now_ms: int) -> None:
        """Update what depends on the time."""
        if self._look is None or self._name is None:
            return
        card, width = self._look.member(self._name), self.size.width
        self.border_title = Content(title(card, self._look, self._terminal, width - 6))
        self._facts.update(facts(card, self._look, self._terminal, width - 4, now_ms))

    def open(self, part: str, *, task: str | None = None) -> None:
        """Show a part of the member; again the diff, the other one: of its task, or of all."""
        again = part == self._part == "diff" and task is None
        self._part = part
        self.query_one(ContentSwitcher).current = part
        self._mark()
        if part == "diff" and self._look is not None and self._name is not None:
            self._changes.show(self._look, self._name, task=task, other=again)
        self._draw_part()

    def sent(self, to: str, text: str) -> Callable[[], None]:
        """Show at once what the person wrote; returns what takes it back."""
        self._sent += 1
        item = StreamItem(f"sent-{self._sent}", None, "mail", visible(text.strip()), sender="you")
        everybody = [] if self._look is None else [card.name for card in self._look.scene.members]
        names = everybody if to == EVERYBODY else [to]
        for name in names:
            self._pending.setdefault(name, []).append(item)
        self._draw_stream(0)

        def back() -> None:
            for name in names:
                self._pending[name] = [each for each in self._pending[name] if each != item]
            self._draw_stream(0)

        return back

    def _mark(self) -> None:
        for tab in self.query(PartTab):
            tab.set_class(tab.id == f"tab-{self._part}", "-here")

    def _draw_part(self) -> None:
        if self._look is None or self._name is None:
            return
        if self._part == "mail":
            said = (self._name, len(self._look.story.said))
            if said != self._shown_mail:
                self._shown_mail = said
                self._mail.read(mail_blocks(self._look, self._name))
        elif self._part == "plan":
            self._plan.show(self._look, self._name)
        elif self._stream is None and self._part == "stream":
            self._draw_stream(0)

    def _draw_stream(self, first: int) -> None:
        if self._look is None or self._name is None:
            return
        if self._stream is not None:
            items = self._stream.items
        else:
            items = mail_items(self._look, self._name)
            # What was sent is among the messages soon.
            said = {item.text for item in items}
            waits = self._pending.get(self._name, [])
            self._pending[self._name] = [item for item in waits if item.text not in said]
        pending = self._pending.get(self._name, [])
        self._stream_view.show([*items, *pending], min(first, len(items)))

    def _follow_member(self) -> None:
        self._stream = None
        name = self._name
        shown = "" if name is None or self._look is None else self._look.name(name)
        self._stream_view.begin(f"Nothing from {shown} yet." if name else "")
        self._transcript.read([("Reading the transcript.", "muted")])
        self.run_worker(self._follow(), group="stream", exclusive=True, exit_on_error=False)

    async def _follow(self) -> None:
        look, name = self._look, self._name
        card = None if look is None else look.member(name)
        if look is None or name is None or card is None:
            return
        if card.driver is None or card.host not in (None, processes.host_name()):
            self._cannot_read(card, look)
            return
        await anyio.sleep(_SETTLE_S)
        home = self._late_app.settings.home
        tail = TranscriptTail(agent_folder(home, look.story.team, name) / TRANSCRIPT)
        stream = Stream(look.name)
        days = [""]
        try:
            rows = await to_thread.run_sync(tail.last, _ROWS_AT_FIRST)
            await to_thread.run_sync(stream.take, rows)
            self._stream = stream
            none = f"{look.name(name)} has no transcript yet."
            self._transcript.read(transcript_blocks(rows, days) or [(none, "muted")])
            begun = bool(rows)
            self._draw_stream(0)
            while True:
                await anyio.sleep(_LOOK_EVERY_S)
                rows = await to_thread.run_sync(tail.more)
                if rows:
                    self._more(stream, rows, transcript_blocks(rows, days), begun=begun)
                    begun = True
        except OSError as error:
            self._transcript.read([(f"Cannot read the transcript: {error}", "bad")])

    def _more(
        self, stream: Stream, rows: list[dict[str, Any]], blocks: list[tuple[str, str]], *,
        begun: bool,
    ) -> None:  # fmt: skip
        if not begun:
            self._transcript.read([])
        self._transcript.read_on(blocks)
        first = stream.take(rows)
        if first is None:
            return
        fresh = stream.items[first:]
        pending = self._pending.get(self._name or "", [])
        for item in fresh:
            if item.kind == "mail" and item.sender == "you" and pending:
                del pending[0]
        self._draw_stream(first)
        if self._part == "diff" and any(item.diff and item.state == "ok" for item in fresh):
            self._changes.refresh_soon()

    def _cannot_read(self, card: MemberCard, look: TeamLook) -> None:
        if look.name(card.name) == "you":
            agents = any(each.driver for each in look.scene.members)
            self._transcript.read([("You have no transcript.", "muted")])
            self._stream_view.begin(_YOU if agents else "No agent has started yet.")
            self._draw_stream(0)
            return
        if card.driver is None:
            why = f"{look.name(card.name)} is not an agent that Bullpen runs: it has no transcript."
        else:
            why = f"{card.name} runs on {card.host}. Its transcript is on that machine."
        self._transcript.read([(why, "attention")])
        self._stream_view.begin(f"{why} Its messages appear here.")
        self._draw_stream(0)

    def on_part_tab_wanted(self, event: PartTab.Wanted) -> None:
        event.stop()
        self.open(event.part)


def _moved(before: TeamLook, look: TeamLook, name: str | None) -> bool:
    """Whether a member is another agent now, or runs somewhere else."""
    was, now = before.member(name), look.member(name)
    if was is None or now is None:
        return was is not now
    return (was.driver is None, was.host) != (now.driver is None, now.host)
