"""One member: what it was told, said and did as it goes on, its last actions, its mail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Static

from bullpen.agents import processes
from bullpen.errors import BullpenError
from bullpen.office import Office
from bullpen.tui.deeds import Deeds
from bullpen.tui.ink import STATE_STYLES, Ink, clock, styled
from bullpen.tui.lines import Reading
from bullpen.tui.pane import Look
from bullpen.tui.streams import mail_of
from bullpen.view import agent_words, sentences
from bullpen.view.scene import MemberCard
from bullpen.view.transcript import STYLES, Tail, moment, said

_ROWS_AT_FIRST = 400
_LOOK_EVERY_S = 0.5
_MAIL = 60
_PARTS = ("transcript", "mail", "actions")


class MemberScreen(Screen[None]):
    """One member, as long as somebody looks at it."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "leave", "Back"),
        Binding("1", "part('transcript')", "Transcript"),
        Binding("2", "part('mail')", "Mail"),
        Binding("3", "part('actions')", "Last actions"),
        Binding("m", "message", "Message"),
        Binding("t", "assign", "Assign"),
        Binding("s", "stop", "Stop"),
        Binding("o", "attach", "Attach"),
    ]

    def __init__(
        self,
        office: Office,
        team: str,
        name: str,
        ink: Ink,
        deeds: Deeds,
        look: Callable[[], Look | None],
    ) -> None:
        super().__init__()
        self._office, self._team, self._member = office, team, name
        self._ink, self._deeds, self._look = ink, deeds, look
        self._facts = Static(id="facts")
        self._transcript = Reading(follow=True, dom_id="transcript")
        self._mail = Reading(follow=True, dom_id="mail")
        self._actions = Reading(dom_id="actions")
        self._day = ""

    def compose(self) -> ComposeResult:
        """Who it is, and one of three texts."""
        yield self._facts
        with ContentSwitcher(initial="transcript"):
            yield self._transcript
            yield self._mail
            yield self._actions
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to read."""
        self._transcript.focus()
        self.call_after_refresh(self.look_again)
        self.run_worker(self._read(), exit_on_error=False)
        self.set_interval(1.0, self.look_again)

    def look_again(self) -> None:
        """Show the member as it is now."""
        look = self._look()
        if look is None or not self.is_current:
            return
        card = next((each for each in look.scene.members if each.name == self._member), None)
        if card is None:
            self._facts.update(styled(f"{self._ink.fit(self._member, 60)} has left the team."))
            return
        self._facts.update(_facts(card, look, self._ink))
        actions = [(action, "") for action in card.actions]
        self._read_anew(self._actions, actions or [("It has said of none yet.", "muted")])
        self._read_anew(self._mail, _letters(look, self._member))

    def _read_anew(self, reading: Reading, blocks: list[tuple[str, str]]) -> None:
        if not reading.holds(blocks):
            reading.read(self._ink, blocks)

    async def _read(self) -> None:
        """Read the transcript as it grows."""
        reading = self._transcript
        where = self._elsewhere()
        if where is not None:
            reading.read(self._ink, [(where, "attention")])
            return
        try:
            path = await self._office.supervisor(self._team).transcript(self._member)
            tail = Tail(path)
            rows = await to_thread.run_sync(tail.last, _ROWS_AT_FIRST)
            begun = bool(rows)
            none = [
                (f"{self._member} has no transcript yet. It shows here once it works.", "muted")
            ]
            reading.read(self._ink, self._blocks(rows) if begun else none)
            reading.action_to_end(True)
            while True:
                rows = await to_thread.run_sync(tail.more)
                if rows and not begun:
                    reading.read(self._ink, [])
                    begun = True
                if rows:
                    reading.read_on(self._blocks(rows))
                await anyio.sleep(_LOOK_EVERY_S)
        except (BullpenError, OSError) as error:
            reading.read(self._ink, [(f"Its transcript cannot be read: {error}", "bad")])

    def _elsewhere(self) -> str | None:
        look = self._look()
        members = () if look is None else look.scene.members
        card = next((each for each in members if each.name == self._member), None)
        if card is None or card.host is None or card.host == processes.host_name():
            return None
        return f"{self._member} runs on {card.host}, and its transcript is there."

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

    def action_leave(self) -> None:
        """Go back to the team."""
        self.dismiss(None)

    def action_part(self, part: str) -> None:
        """Show another of the texts."""
        assert part in _PARTS
        self.query_one(ContentSwitcher).current = part
        self.query_one(f"#{part}", Reading).focus()

    def action_message(self) -> None:
        """Write to it."""
        self._deeds.message(self._member)

    def action_assign(self) -> None:
        """Give it a task."""
        self._deeds.assign(None, self._member)

    def action_stop(self) -> None:
        """Stop it."""
        self._deeds.stop(self._member)

    def action_attach(self) -> None:
        """Show its own terminal."""
        self._deeds.attach(self._member)


def _facts(card: MemberCard, look: Look, ink: Ink) -> Text:
    """Who it is and how it is, in a few lines."""
    now_ms = look.now_ms
    lead = f"{ink.glyph('lead')} " if card.lead else ""
    line = styled(f"{lead}{ink.fit(card.name, 60)}  ", card.color or "strong")
    state = ink.state(card.state)
    line.append_text(styled(state, STATE_STYLES[card.state]))
    since = sentences.age(card.since_ms, now_ms)
    if since:
        line.append_text(styled(f" for {since}", "muted"))
    if card.detail:
        line.append_text(styled(f"  {ink.fit(card.detail, 200)}"))
    about = [
        f"{word} {ink.fit(value, 60)}"
        for word, value in (
            ("driver", card.driver), ("model", card.model), ("backend", card.backend),
            ("on", card.host),
        )
        if value
    ]  # fmt: skip
    if card.context is not None:
        about.append(f"context {card.context:.0%}")
    about += [agent_words.used(card.usage), f"{card.unread or 0} unread"]
    line.append_text(styled("\n" + ", ".join(about), "muted"))
    subjects = {task.id: task.subject for task in look.scene.tasks}
    for task in card.tasks[:3]:
        line.append_text(styled(f"\n#{task} {ink.fit(subjects.get(task, ''), 200)}"))
    line.no_wrap = False
    return line


def _letters(look: Look, name: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    for letter in mail_of(look.story, name, _MAIL):
        head = f"{clock(letter.at_ms)} {letter.sender} to {', '.join(letter.to)}:"
        body = sentences.body(letter.message)
        blocks += [(head, "strong"), (body, "muted" if letter.kind else ""), ("", "")]
    return blocks or [("It has written nothing and got nothing.", "muted")]
