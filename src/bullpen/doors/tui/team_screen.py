"""The screen of one team: five pages that follow what happens."""

from __future__ import annotations

from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import ContentSwitcher, DataTable, Footer, Input, Static

from bullpen.doors.tui.dialogs import TextWindow
from bullpen.doors.tui.header import PAGES, Tab, Tabs, head
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.member_keys import MEMBER_BINDINGS
from bullpen.doors.tui.member_screen import MemberScreen
from bullpen.doors.tui.panes.feeds import LogPane, MessagesPane
from bullpen.doors.tui.panes.members import MembersPane
from bullpen.doors.tui.panes.pane import Pane, TeamLook
from bullpen.doors.tui.panes.requests import WaitingPane
from bullpen.doors.tui.panes.tasks import TasksPane
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.errors import BullpenError, NotFound
from bullpen.protocol.clock import Clock
from bullpen.protocol.names import EVERYBODY
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene
from bullpen.view.story import Story

if TYPE_CHECKING:
    from bullpen.doors.tui.key_actions import KeyActions

_TICK_S = 1.0
_AGES_EVERY = 5
"""Ages in a table are updated every so many ticks: redrawing all of them is expensive."""

_GAP_S = 0.15
"""The least time between two updates, so that many changes at once are one update."""

_RETRY_S = 2.0
_HEARTBEATS_S = 2.0
"""How often heartbeats are read; with thousands of tasks each read is expensive."""

_PAGES_OF_ACTION = {
    "graph": ("tasks",),
    "notices": ("messages",),
    "answer": ("waiting",),
    "as_written": ("waiting",),
    "attach": ("members", "tasks"),
    "stop": ("members", "tasks"),
    "mode": ("members", "tasks"),
    "assign": ("members", "tasks"),
}


class TeamScreen(Screen[None]):
    """One team."""

    BINDINGS = [  # noqa: RUF012
        *(Binding(str(n), f"page('{page}')", page, show=False) for n, page in enumerate(PAGES, 1)),
        # The keys of Claude Code.
        Binding("ctrl+t", "page('tasks')", "tasks", show=False),
        Binding("shift+up", "member(-1)", "Previous member", show=False),
        Binding("shift+down", "member(1)", "Next member", show=False),
        Binding("a", "answer('approve')", "Approve"),
        Binding("A", "answer('always')", "Always"),
        Binding("e", "answer('edit')", "Edit"),
        Binding("d", "answer('deny')", "Deny"),
        Binding("r", "as_written", "Plain text"),
        Binding("g", "graph", "Graph"),
        Binding("n", "notices", "Notices"),
        Binding("slash", "filter", "Filter"),
        *MEMBER_BINDINGS,
        Binding("M", "message_all", "Message all", show=False),
        Binding("w", "dismiss", "Teams", show=False),
        Binding("escape", "clear", "Clear", show=False),
        Binding("question_mark", "app.help", "Help"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, late_app: LateApp, team: str, terminal: TerminalText, clock: Clock) -> None:
        super().__init__()
        self._late_app, self._team = late_app, team
        self._terminal, self._clock = terminal, clock
        self._head = Static(id="head")
        self._trouble = Static(id="trouble")
        self._input = Input(placeholder="show only lines with", compact=True, id="filter")
        self._look: TeamLook | None = None
        self._page = "members"
        self._stale: set[str] = set()
        self._head_line = self._trouble_text = Text()
        self._ticks = 0

    def compose(self) -> ComposeResult:
        yield self._head
        yield Tabs()
        yield self._trouble
        with ContentSwitcher(initial="members"):
            for pane in (MembersPane, TasksPane, MessagesPane, WaitingPane, LogPane):
                yield pane(self._terminal)
        self._input.cursor_blink = False
        yield self._input
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._head.update(styled(f" {self._terminal.fit(self._team, 40)}   reading the log"))
        self._trouble.display = self._input.display = False
        self.query_one(Tabs).mark("members")
        self._pane.main.focus()
        self.run_worker(self._follow(), group="following", exit_on_error=False)
        self.set_interval(_TICK_S, self._update_ages)

    @cached_property
    def _actions(self) -> KeyActions:
        return self._late_app.key_actions(self.app, self._team, self._terminal, lambda: self._look)

    @property
    def looked_at(self) -> TeamLook | None:
        """The team as it is shown; None before the first update."""
        return self._look

    async def _follow(self) -> None:
        """Show every change of the team; after an error, say so and try again."""
        while True:
            try:
                team = self._late_app.teams.open(self._team)
                following = TeamFollower(team, clock=self._clock, every_s=_HEARTBEATS_S)
                if self._look is None:
                    # The log can be long: first show the team without what happened.
                    self.show(*await following.first_look())
                async with aclosing(following.scenes()) as scenes:
                    async for scene in scenes:
                        self.show(scene, following.story)
                        await anyio.sleep(_GAP_S)
            except NotFound:
                gone = f"The team {self._team} was deleted."
                none = f"There is no team {self._team}."
                self._say(f"{none if self._look is None else gone} Press w to choose another team.")
            except BullpenError as error:
                self._say(f"{error} Trying again.")
            except Exception as error:
                self._say(f"This is a bug in Bullpen: {type(error).__name__}: {error}")
            await anyio.sleep(_RETRY_S)

    def show(self, scene: Scene, story: Story) -> None:
        """Show the team as it is now; hidden pages are drawn when they are opened."""
        self._look = TeamLook(scene, story, scene.at_ms)
        self._draw_head(scene.at_ms)
        self.query_one(Tabs).count(len(scene.asks))
        self._say(" ".join(scene.problems))
        self._stale = set(PAGES)
        self._draw()

    def _draw(self) -> None:
        if self._look is not None and self._page in self._stale:
            self._stale.discard(self._page)
            self._pane.show(self._look)

    def _draw_head(self, now_ms: int) -> None:
        if self._look is not None:
            line = head(self._look, now_ms, self.size.width, self._terminal)
            if line != self._head_line:
                self._head_line = line
                self._head.update(line, layout=False)

    def _update_ages(self) -> None:
        if self._look is None or not self.is_current:
            return
        now_ms = self._clock()
        self._draw_head(now_ms)
        self._ticks += 1
        if self._ticks % _AGES_EVERY == 0:
            self._pane.age(now_ms)

    def _say(self, trouble: str) -> None:
        self._trouble.display = bool(trouble)
        if trouble:
            text = styled(f"! {self._terminal.fit(trouble, 400)}")
            text.no_wrap = False
            if text != self._trouble_text:
                self._trouble_text = text
                self._trouble.update(text)

    @property
    def _pane(self) -> Pane:
        return self.query_one(f"#{self._page}", Pane)

    def on_screen_resume(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw_head(self._clock())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that do something on this page."""
        pages = _PAGES_OF_ACTION.get(action)
        return pages is None or self._page in pages

    def action_page(self, page: str) -> None:
        self._page = page
        self.query_one(ContentSwitcher).current = page
        self.query_one(Tabs).mark(page)
        self._draw()
        pane = self._pane
        self._input.display = bool(pane.words)
        with self._input.prevent(Input.Changed):
            self._input.value = pane.words
        pane.main.focus()
        self.refresh_bindings()

    def action_member(self, step: int) -> None:
        self.action_page("members")
        self.query_one(MembersPane).move(step)

    def on_tab_wanted(self, event: Tab.Wanted) -> None:
        self.action_page(event.page)

    def action_filter(self) -> None:
        self._input.display = True
        self._input.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    def on_input_submitted(self) -> None:
        self._input.display = bool(self._input.value)
        self._pane.main.focus()

    def action_clear(self) -> None:
        self._input.value = ""
        self._input.display = False
        self._search("")
        self._pane.main.focus()

    def _search(self, words: str) -> None:
        if self._pane.words != words:
            self._pane.words = words
            self._stale.add(self._page)
            self._draw()

    def action_graph(self) -> None:
        self.query_one(TasksPane).toggle()

    def action_notices(self) -> None:
        pane = self.query_one(MessagesPane)
        pane.notices = not pane.notices
        self._actions.tell("Notices are shown." if pane.notices else "Notices are hidden.")
        self._stale.add("messages")
        self._draw()

    def action_as_written(self) -> None:
        self.query_one(WaitingPane).toggle()

    def action_answer(self, how: str) -> None:
        """Answer the request under the cursor, unless it has only just moved there by itself."""
        pane = self.query_one(WaitingPane)
        ask = pane.ask()
        if ask is None:
            self._actions.tell("No requests are waiting.")
        elif not pane.is_settled:
            self._actions.tell("This request has only just appeared.", "Read it, then answer.")
        elif how == "deny":
            self._actions.deny(ask)
        elif how == "edit":
            self._actions.edit(ask)
        else:
            self._actions.approve(ask, always=how == "always")

    def action_message(self) -> None:
        name = self._pane.selected().member
        members = () if self._look is None else self._look.scene.members
        self._actions.message(name if any(card.name == name for card in members) else None)

    def action_message_all(self) -> None:
        self._actions.message(EVERYBODY)

    def action_assign(self) -> None:
        selected = self._pane.selected()
        self._actions.assign(selected.task, None if self._page == "tasks" else selected.member)

    def action_stop(self) -> None:
        if (name := self._member()) is not None:
            self._actions.stop(name)

    def action_mode(self) -> None:
        if (name := self._member()) is not None:
            self._actions.mode(name)

    def action_attach(self) -> None:
        if (name := self._member()) is not None:
            self._actions.attach(name)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        if (name := self._member()) is not None:
            screen = MemberScreen(
                self._late_app, self._team, name, self._terminal, lambda: self._actions,
                lambda: self._look,
            )  # fmt: skip
            self.app.push_screen(screen)

    def on_lines_chosen(self) -> None:
        found = self._pane.details()
        if found is not None:
            self.app.push_screen(TextWindow(self._terminal, *found))

    def _member(self) -> str | None:
        name = self._pane.selected().member
        if name is None:
            self._actions.tell("No member is selected.", "Select a member with the arrow keys.")
        return name
