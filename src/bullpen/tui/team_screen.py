"""A team on the screen: five pages, kept up with what happens."""

from __future__ import annotations

from contextlib import aclosing

import anyio
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import ContentSwitcher, DataTable, Footer, Input, Static

from bullpen.errors import BullpenError, NotFound
from bullpen.office import Office
from bullpen.protocol.names import EVERYBODY
from bullpen.store.clock import Clock
from bullpen.tui.deeds import Deeds
from bullpen.tui.dialogs import Letter
from bullpen.tui.help import help_screen
from bullpen.tui.ink import Ink, clock, styled
from bullpen.tui.lines import Lines
from bullpen.tui.member_screen import MemberScreen
from bullpen.tui.members import MembersPane
from bullpen.tui.pane import Look, Pane
from bullpen.tui.streams import LogPane, MessagesPane
from bullpen.tui.tasks import TITLES, TasksPane
from bullpen.tui.top import PAGES, Tab, Tabs, head
from bullpen.tui.waiting import WaitingPane
from bullpen.view import sentences
from bullpen.view.following import Following
from bullpen.view.scene import AskCard, Scene, TaskCard
from bullpen.view.story import Story

_TICK_S = 1.0
_AGES_EVERY = 5
"""Ages in a long table go on every so many ticks: drawing all of them costs more than it tells."""

_GAP_S = 0.15
"""The least time between two pictures, so that many changes at once cost one."""

_AGAIN_S = 2.0
_HEARTBEATS_S = 2.0
"""Agents send one every few seconds, and with thousands of tasks each look costs."""

_ONLY_ON = {
    "graph": ("tasks",),
    "notices": ("messages",),
    "approve": ("waiting",),
    "always": ("waiting",),
    "edit": ("waiting",),
    "deny": ("waiting",),
    "as_written": ("waiting",),
    "attach": ("members", "tasks"),
    "stop": ("members", "tasks"),
    "assign": ("members", "tasks"),
}


class TeamScreen(Screen[None]):
    """One team."""

    BINDINGS = [  # noqa: RUF012
        *(Binding(str(n), f"page('{page}')", page, show=False) for n, page in enumerate(PAGES, 1)),
        Binding("a", "approve", "Approve"),
        Binding("A", "always", "Always"),
        Binding("e", "edit", "Edit"),
        Binding("d", "deny", "Deny"),
        Binding("r", "as_written", "As written"),
        Binding("g", "graph", "Graph"),
        Binding("n", "notices", "Notices"),
        Binding("slash", "filter", "Filter"),
        Binding("m", "message", "Message"),
        Binding("M", "message_all", "To all", show=False),
        Binding("t", "assign", "Assign"),
        Binding("s", "stop", "Stop"),
        Binding("o", "attach", "Attach"),
        Binding("w", "leave", "Teams", show=False),
        Binding("escape", "clear", "Clear", show=False),
        Binding("question_mark", "help", "Help"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, office: Office, team: str, ink: Ink, clock: Clock) -> None:
        super().__init__()
        self._office, self._team, self._ink, self._clock = office, team, ink, clock
        self._head = Static(id="head")
        self._trouble = Static(id="trouble")
        self._input = Input(placeholder="only what has these words", compact=True, id="filter")
        self._look: Look | None = None
        self._page = "members"
        self._stale: set[str] = set()
        self._head_line = self._trouble_text = Text()
        self._ticks = 0

    def compose(self) -> ComposeResult:
        """The team in a line, its pages, what is wrong, the page one is on, the keys."""
        yield self._head
        yield Tabs()
        yield self._trouble
        with ContentSwitcher(initial="members"):
            yield MembersPane(self._ink)
            yield TasksPane(self._ink)
            yield MessagesPane(self._ink)
            yield WaitingPane(self._ink)
            yield LogPane(self._ink)
        self._input.cursor_blink = False
        yield self._input
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to follow the team."""
        self._deeds = Deeds(self.app, self._office, self._team, self._ink, lambda: self._look)
        self._head.update(styled(f" {self._ink.fit(self._team, 40)}   reading its history"))
        self._trouble.display = self._input.display = False
        self.query_one(Tabs).mark("members")
        self._pane("members").focus_list()
        self.run_worker(self._follow(), group="following", exit_on_error=False)
        self.set_interval(_TICK_S, self._grow_older)

    @property
    def looked_at(self) -> Look | None:
        """The team as it is shown; None before the first picture."""
        return self._look

    async def _follow(self) -> None:
        """Show every scene; while there is none, say why and try again."""
        while True:
            try:
                team = self._office.teams.open(self._team)
                following = Following(team, clock=self._clock, every_s=_HEARTBEATS_S)
                async with aclosing(following.scenes()) as scenes:
                    async for scene in scenes:
                        self.show(scene, following.story)
                        await anyio.sleep(_GAP_S)
            except NotFound:
                gone = "" if self._look is None else " any more"
                self._say(f"There is no team {self._team}{gone}. w shows which there are.")
            except BullpenError as error:
                self._say(f"{error} It is tried again.")
            except Exception as error:
                self._say(f"This is a bug in bullpen: {type(error).__name__}: {error}")
            await anyio.sleep(_AGAIN_S)

    def show(self, scene: Scene, story: Story) -> None:
        """Show the team as it is now; pages that are not seen are drawn when they are."""
        self._look = Look(scene, story, scene.at_ms)
        self._draw_head(scene.at_ms)
        self.query_one(Tabs).count(len(scene.asks))
        self._say(" ".join(scene.problems))
        self._stale = set(PAGES)
        self._draw(self._page)

    def _draw(self, page: str) -> None:
        if self._look is not None and page in self._stale:
            self._stale.discard(page)
            self._pane(page).show(self._look)

    def _draw_head(self, now_ms: int) -> None:
        if self._look is not None:
            line = head(self._look, now_ms, self.size.width, self._ink)
            if line != self._head_line:
                self._head_line = line
                self._head.update(line, layout=False)

    def _grow_older(self) -> None:
        """Ages go on when nothing else does, where somebody sees them."""
        if self._look is None or not self.is_current:
            return
        now_ms = self._clock()
        self._draw_head(now_ms)
        self._ticks += 1
        if self._ticks % _AGES_EVERY == 0:
            self._pane(self._page).age(now_ms)

    def _say(self, trouble: str) -> None:
        self._trouble.display = bool(trouble)
        if trouble:
            text = styled(f"! {self._ink.fit(trouble, 400)}")
            text.no_wrap = False
            if text != self._trouble_text:
                self._trouble_text = text
                self._trouble.update(text)

    def _pane(self, page: str) -> Pane:
        return self.query_one(f"#{page}", Pane)

    def on_screen_resume(self) -> None:
        """Show what happened while something else was on top."""
        self._draw(self._page)

    def on_resize(self) -> None:
        """Fit the first line to the new width."""
        if self._look is not None:
            self._draw_head(self._clock())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that mean something on this page."""
        pages = _ONLY_ON.get(action)
        return pages is None or self._page in pages

    def action_page(self, page: str) -> None:
        """Go to a page."""
        self._page = page
        self.query_one(ContentSwitcher).current = page
        self.query_one(Tabs).mark(page)
        self._draw(page)
        pane = self._pane(page)
        self._input.display = bool(pane.words)
        with self._input.prevent(Input.Changed):
            self._input.value = pane.words
        pane.focus_list()
        self.refresh_bindings()

    def on_tab_wanted(self, event: Tab.Wanted) -> None:
        """Go to the page whose name was clicked."""
        self.action_page(event.page)

    def action_filter(self) -> None:
        """Type what to show only."""
        self._input.display = True
        self._input.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only what has these words."""
        self._search(event.value)

    def on_input_submitted(self) -> None:
        """Go back to what was found."""
        self._input.display = bool(self._input.value)
        self._pane(self._page).focus_list()

    def action_clear(self) -> None:
        """Show everything again."""
        self._input.value = ""
        self._input.display = False
        self._search("")
        self._pane(self._page).focus_list()

    def _search(self, words: str) -> None:
        pane = self._pane(self._page)
        if pane.words != words:
            pane.words = words
            self._stale.add(self._page)
            self._draw(self._page)

    def action_graph(self) -> None:
        """Show the graph of tasks, and the board again."""
        self.query_one(TasksPane).toggle()

    def action_notices(self) -> None:
        """Show notices too, and no more."""
        pane = self.query_one(MessagesPane)
        pane.notices = not pane.notices
        self._deeds.tell("Notices are shown." if pane.notices else "Notices are left out.")
        self._stale.add("messages")
        self._draw("messages")

    def action_approve(self) -> None:
        """Allow what is asked, once."""
        if (ask := self._ask()) is not None:
            self._deeds.approve(ask)

    def action_always(self) -> None:
        """Allow it and its like from now on."""
        if (ask := self._ask()) is not None:
            self._deeds.approve(ask, always=True)

    def action_edit(self) -> None:
        """Allow it with another input."""
        if (ask := self._ask()) is not None:
            self._deeds.edit(ask)

    def action_deny(self) -> None:
        """Say no, and why."""
        if (ask := self._ask()) is not None:
            self._deeds.deny(ask)

    def action_as_written(self) -> None:
        """Show a plan as it is written, and as Markdown again."""
        self.query_one(WaitingPane).toggle()

    def action_message(self) -> None:
        """Write to whoever is chosen."""
        name = self._pane(self._page).chosen().member
        look = self._look
        known = look is not None and any(card.name == name for card in look.scene.members)
        self._deeds.message(name if known else None)

    def action_message_all(self) -> None:
        """Write to everybody."""
        self._deeds.message(EVERYBODY)

    def action_assign(self) -> None:
        """Give a task to a member."""
        chosen = self._pane(self._page).chosen()
        on_tasks = self._page == "tasks"
        self._deeds.assign(chosen.task, None if on_tasks else chosen.member)

    def action_stop(self) -> None:
        """Stop the chosen agent."""
        if (name := self._member()) is not None:
            self._deeds.stop(name)

    def action_attach(self) -> None:
        """Show the chosen agent's own terminal."""
        if (name := self._member()) is not None:
            self._deeds.attach(name)

    def action_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(help_screen(self._ink))

    def action_leave(self) -> None:
        """Go to another team."""
        self.dismiss(None)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the member whole."""
        event.stop()
        if (name := self._member()) is not None:
            self.app.push_screen(
                MemberScreen(
                    self._office, self._team, name, self._ink, self._deeds, lambda: self._look
                )
            )

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Show a task, a message or an event whole."""
        match self._pane(self._page):
            case TasksPane() as pane:
                card = pane.card()
                if card is not None:
                    self._read(f"Task #{card.id}", _task_blocks(card))
            case MessagesPane() as pane:
                said = pane.said()
                if said is not None:
                    to = ", ".join(said.to)
                    title = f"{clock(said.at_ms)} {said.sender} to {to}"
                    self._read(title, [(sentences.body(said.message), "")])
            case LogPane() as pane:
                told = pane.told()
                if told is not None:
                    self._read(clock(told.at_ms), [(told.text, "")])

    def _read(self, title: str, blocks: list[tuple[str, str]]) -> None:
        self.app.push_screen(Letter(self._ink, title, blocks))

    def _member(self) -> str | None:
        name = self._pane(self._page).chosen().member
        if name is None:
            self._deeds.tell("Nobody is chosen.", "Go to a member with the arrow keys.")
        return name

    def _ask(self) -> AskCard | None:
        """The request that is meant: what came under the cursor by itself is not, at once."""
        pane = self.query_one(WaitingPane)
        ask = pane.selected()
        if ask is None:
            self._deeds.tell("Nothing waits for an answer.")
            return None
        if not pane.is_settled:
            self._deeds.tell("This request has only just come.", "Read it, then answer.")
            return None
        return ask


def _task_blocks(card: TaskCard) -> list[tuple[str, str]]:
    """All about a task."""
    blocks = [
        (card.subject, "strong"),
        (f"{TITLES[card.state]}{f', {card.owner}' if card.owner else ''}", ""),
    ]
    if card.after:
        blocks.append(("Behind: " + " ".join(f"#{each}" for each in card.after), "muted"))
    if card.waits_for:
        blocks.append(("Waits for: " + " ".join(f"#{each}" for each in card.waits_for), ""))
    verdicts = {True: ("passed", "good"), False: ("failed", "bad"), None: ("not run yet", "muted")}
    for name, passed in card.checks:
        word, style = verdicts[passed]
        blocks.append((f"Check {name}: {word}", style))
    if card.note:
        blocks.append((card.note, "attention"))
    if card.commit:
        blocks.append((f"Commit {card.commit}", "muted"))
    for title, text in (("", card.description), ("Report:", card.report)):
        if text:
            blocks += [(title, "strong"), (text, "")]
    return blocks
