"""The screen of one team: who works on what, what the chosen member does, and a line to talk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Static, TextArea

from bullpen.by_name import load
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.line_view import Lines
from bullpen.doors.tui.member.member_view import FIRST_KEY, PARTS, MemberView
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.prompt.answering import Answering
from bullpen.doors.tui.prompt.ask_bar import AskBar
from bullpen.doors.tui.prompt.completion_list import CompletionList
from bullpen.doors.tui.prompt.hint import Hint
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.doors.tui.team.following import follow_team
from bullpen.doors.tui.team.header import head
from bullpen.doors.tui.team.lists import TaskList, TeamList, first_recipient
from bullpen.doors.tui.team.trouble_line import TroubleLine
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.errors import BullpenError
from bullpen.protocol.clock import Clock
from bullpen.protocol.names import EVERYBODY
from bullpen.view.cards import MemberCard
from bullpen.view.scene import Scene
from bullpen.view.story import Story

if TYPE_CHECKING:
    from bullpen.doors.tui.key_actions import KeyActions
    from bullpen.doors.tui.line_view import Blocks
    from bullpen.doors.tui.panes.page_screen import PageScreen
    from bullpen.doors.tui.prompt.run_command import CommandRunner

_TICK_S = 1.0
_WARM_UP_S = 0.5
"""When the modules that only actions need are imported, after the first picture."""

AGAIN_S = 3.0
"""How soon a key must be pressed again to count as the second time."""

_OWN_KEYS = ("j", "k", "space")
"""Keys that move in a list; other letters go to the input line."""


class TeamScreen(Screen[None]):
    """One team."""

    BINDINGS = [  # noqa: RUF012
        # The keys of Claude Code.
        Binding("shift+up", "choose(-1)", "Previous member", show=False, priority=True),
        Binding("shift+down", "choose(1)", "Next member", show=False, priority=True),
        Binding("shift+tab", "next_mode", "Mode", show=False, priority=True),
        Binding("ctrl+t", "show_page('tasks')", "Tasks", show=False, priority=True),
        Binding("ctrl+c", "clear_or_quit", "Quit", show=False, priority=True),
        Binding("ctrl+d", "delete_or_leave", "Finish", show=False, priority=True),
        Binding("escape", "escape", "Interrupt", show=False),
        *(
            Binding(f"f{number}", f"part('{part}')", part, show=False, priority=True)
            for number, part in enumerate(PARTS, FIRST_KEY)
        ),
        Binding("f7", "show_page('notes')", "Notes", show=False, priority=True),
        Binding("pageup", "scroll_member(-1)", "Page up", show=False, priority=True),
        Binding("pagedown", "scroll_member(1)", "Page down", show=False, priority=True),
        Binding("ctrl+home", "member_to_end(False)", "First", show=False, priority=True),
        Binding("ctrl+end", "member_to_end(True)", "Last", show=False, priority=True),
    ]

    def __init__(
        self,
        late_app: LateApp,
        team: str | None,
        terminal: TerminalText,
        clock: Clock,
        *,
        about: str = "",
    ) -> None:
        """Without a team, it is being started for what `about` says; `begin` names it."""
        super().__init__()
        self._late_app, self._team, self._about = late_app, team, about
        self._terminal, self._clock = terminal, clock
        self._head, self._trouble = Static(id="head"), TroubleLine(terminal)
        self._members, self._tasks = TeamList(terminal), TaskList(terminal)
        self._member = MemberView(terminal, late_app)
        self._bar, self._line = AskBar(terminal), PromptLine()
        self._completions, self._hint = CompletionList(terminal), Hint(terminal)
        self._label = Static(id="label")
        self._line.completed, self._line.touched = self._completed, self._hint.touched
        self._answering = Answering(self, terminal, self._bar, self._line, self.act, self.tell)
        self._look: TeamLook | None = None
        self._actions: KeyActions | None = None
        self._page: PageScreen | None = None
        self._head_line = self._label_text = Text()
        self._leaving_s = 0.0
        self._commands: CommandRunner | None = None

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._trouble
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield self._members
                yield self._tasks
            yield self._member
        yield self._bar
        yield self._completions
        with Horizontal(id="prompt"):
            yield self._label
            yield self._line
        yield self._hint

    def on_mount(self) -> None:
        self._members.border_title, self._tasks.border_title = "team", "tasks"
        self._bar.display = False
        self._line.focus()
        self._relabel()
        if self._team is None:
            self._head.update(styled(" starting the team", "strong"))
            self._member.wait_for(f"> {self._about}\n\nStarting the team.")
        else:
            self._head.update(styled(f" {self._terminal.fit(self._team, 40)}   reading the log"))
            self._start()
        self.set_interval(_TICK_S, self._update_ages)

    def begin(self, team: str) -> None:
        """Show the team that was being started: its records are there now."""
        if self._team is None:
            self._team = team
            self._start()

    def _start(self) -> None:
        following = follow_team(self._late_app.teams, self._team or "", self._clock, self)
        self.run_worker(following, group="following", exit_on_error=False)

    @property
    def looked_at(self) -> TeamLook | None:
        """The team as it is shown; None before the first update."""
        return self._look

    @property
    def chosen(self) -> str | None:
        """The member that is shown on the right."""
        return self._members.chosen

    def show(self, scene: Scene, story: Story) -> None:
        """Show the team as it is now."""
        if self._look is None:
            self.set_timer(_WARM_UP_S, self._warm_up)
        look = self._look = TeamLook(scene, story, scene.at_ms)
        self._draw_head(scene.at_ms)
        self.say(" ".join(scene.problems))
        self._members.show(look)
        self._tasks.show(look)
        self._show_chosen()
        if self._page is not None and self._page.is_attached:
            self._page.show(look)

    def _show_chosen(self) -> None:
        look = self._look
        if look is None:
            return
        self._member.show(look, self.chosen)
        self._bar.show(look, self.chosen)
        if look.member(self._members.recipient) is None:
            self._members.recipient = first_recipient(look)
        self._answering.follow()
        self._relabel()

    def _draw_head(self, now_ms: int) -> None:
        if self._look is not None:
            line = head(self._look, now_ms, self.size.width, self._terminal)
            if line != self._head_line:
                self._head_line = line
                self._head.update(line, layout=False)

    def _update_ages(self) -> None:
        if self._look is None:
            return
        now_ms = self._clock()
        if self.is_current:
            self._draw_head(now_ms)
            self._member.age(now_ms)
            self._bar.age(now_ms)
        elif self._page is not None and self._page.is_current:
            self._page.age(now_ms)

    def say(self, trouble: str) -> None:
        """Show what is wrong until it is right again."""
        self._trouble.say(trouble)

    def hold(self, why: str | None) -> None:
        """Show why work of the run waits; None once it goes on."""
        self._trouble.hold(why)

    def _relabel(self) -> None:
        look, to = self._look, self._members.recipient
        label = None if look is None else self._answering.label(look.name)
        if label is None:
            whom = "" if look is None or to is None else f" {self._terminal.glyph('to')} "
            whom += self.shown_name(to) if whom and to is not None else ""
            label = f"you{whom}: "
        text = styled(self._terminal.fit(label, max(8, self.size.width - 28)) + " ", "strong")
        if text != self._label_text:
            self._label_text = text
            self._label.update(text)
        self._hint.stand(self._answering.beside("nobody" if to is None else self.shown_name(to)))

    def on_resize(self) -> None:
        self._draw_head(self._clock())
        self._bar.draw()
        self._relabel()

    # What is told.

    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None:
        """Tell the person something: below the input line, or above another screen."""
        if self.is_current:
            self._hint.tell(message, more, bad=bad)
            return
        lines = [self._terminal.fit(line, 600) for line in (message, more) if line]
        self.app.notify("\n".join(lines), severity="error" if bad else "information", markup=False)

    def shown_name(self, name: str) -> str:
        if name == EVERYBODY:
            return "everybody"
        return name if self._look is None else self._look.name(name)

    # What acts.

    def act(self, do: Callable[[KeyActions], None]) -> None:
        """Do something in the team, once what it needs is imported."""
        if self._actions is not None:
            do(self._actions)
        elif self._team is None:
            self.tell("The team is still starting.")
        else:
            self.run_worker(self._act_soon(do), group="acting", exit_on_error=False)

    async def _act_soon(self, do: Callable[[KeyActions], None]) -> None:
        if self._actions is None:
            self._actions = await self._late_app.key_actions(
                self.app, self._team or "", self._terminal, lambda: self._look, self.tell
            )
        do(self._actions)

    def _warm_up(self) -> None:
        self.run_worker(self._act_soon(lambda _: None), group="acting", exit_on_error=False)

    def send(self, to: str | None, text: str) -> None:
        """Write to a member, or to everybody; it is in the stream at once."""
        to = to or self._members.recipient
        if to is None:
            self.tell("There is nobody to write to.", "Start a teammate: /spawn NAME PROMPT")
            return
        back = self._member.sent(to, text)
        if keys := self._answering.waits():
            self.tell(f"Sent as text to {self.shown_name(to)}; the request still waits: {keys}.")
        elif to != self.chosen and to != EVERYBODY:
            self.tell(f"To {self.shown_name(to)}: {text}")

        def failed() -> None:
            back()
            self._give_back(text)

        self.act(lambda acts: acts.send(to, text, failed))

    # What is typed.

    def on_prompt_line_sent(self, event: PromptLine.Sent) -> None:
        text = event.text
        if self._answering.submit(text):
            self._show_chosen()
            return
        if not text.strip():
            self.talk_to(self.chosen)
            return
        if self._team is None:
            self.tell("The team is still starting.", "What you type stays here.")
            self._give_back(text)
            return
        if self._commands is None:
            self._commands = load("bullpen.doors.tui.prompt.run_command:CommandRunner")(self)
        try:
            self._commands.run(text, [card.name for card in self._cards])
        except BullpenError as error:
            self.tell(error.message, error.remedy, bad=True)
            self._give_back(text)
            return
        self._line.remember(text)

    def _give_back(self, text: str) -> None:
        """Put a text that came to nothing back into the line."""
        if not self._line.text:
            self._line.put(text)

    @property
    def _cards(self) -> tuple[MemberCard, ...]:
        return () if self._look is None else self._look.scene.members

    def on_prompt_line_pressed(self, event: PromptLine.Pressed) -> None:
        if event.key == "?":
            self.help()
        else:
            self._answering.press(event.key)
            self._relabel()

    def on_prompt_line_step(self, event: PromptLine.Step) -> None:
        self._completions.move(event.by)

    def _completed(self, text: str, entered: bool) -> str | None:
        self._offer(text)
        return self._completions.taken(text) if entered else self._completions.best()

    def _offer(self, text: str) -> None:
        names = [card.name for card in self._cards if self.shown_name(card.name) != "you"]
        self._completions.offer(text, names)
        self._line.completing = self._completions.is_open

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._offer(self._line.text)
        self._answering.follow()
        self._relabel()

    def on_key(self, event: events.Key) -> None:
        """Outside of the input line, keys answer at once; other letters go into the line."""
        if self.focused is self._line:
            return
        self._hint.touched()
        if event.character is None or not event.is_printable:
            return
        if event.key in _OWN_KEYS and isinstance(self.focused, Lines):
            return
        event.stop()
        event.prevent_default()
        if event.character == "?" and not self._line.text:
            self.help()
        elif event.character in self._line.keys:
            self._answering.press(event.character)
            self._relabel()
        else:
            self._line.focus()
            self._line.insert(event.character)
        if self._line.keys == frozenset() and self.focused is not self._line:
            # A reason is asked for.
            self._line.focus()

    def help(self) -> None:
        self.app.push_screen(load("bullpen.doors.tui.help:help_screen")(self._terminal))

    def next_theme(self) -> None:
        names = sorted(self.app.available_themes)
        self.app.theme = names[(names.index(self.app.theme) + 1) % len(names)]
        self.tell(f"Theme: {self.app.theme}")

    # What is chosen and opened.

    def on_lines_moved(self, event: Lines.Moved) -> None:
        if event.lines is self._members:
            self._show_chosen()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open what is under the cursor: a member to talk to, a task, an item of the stream."""
        if event.lines is self._members:
            self.talk_to(self.chosen)
            self._line.focus()
        elif event.lines is self._tasks and self._tasks.under_cursor is not None and self._look:
            text = load("bullpen.doors.tui.team.task_text:task_text")
            self._open_window(*text(self._tasks.under_cursor, self._look.name))
        elif (item := self._member.item) is not None:
            self._open_window(*load("bullpen.doors.tui.member.item_text:item_text")(item))

    def _open_window(self, title: str, blocks: Blocks) -> None:
        window = load("bullpen.doors.tui.dialogs:TextWindow")
        self.app.push_screen(window(self._terminal, title, blocks))

    def talk_to(self, name: str | None) -> None:
        """Direct the input line to a member."""
        if name is None or self._look is None:
            return
        if self._look.name(name) == "you":
            self.tell("This is you.", "Choose an agent to talk to: shift+down.")
            return
        self._members.recipient = name
        self._relabel()

    def choose(self, name: str) -> None:
        """Show a member on the right."""
        self._members.choose(name)

    def worker_of(self, task: str) -> str | None:
        """Who works on a task, or did."""
        cards = () if self._look is None else self._look.scene.tasks
        return next((card.by or card.owner for card in cards if card.id == task), None)

    def action_choose(self, step: int) -> None:
        self._members.action_move(step)

    def action_part(self, part: str) -> None:
        self._member.open(part)

    def action_scroll_member(self, by: int) -> None:
        self._member.page(by)

    def action_member_to_end(self, last: bool) -> None:
        self._member.to_end(last)

    def show_diff(self, task: str | None) -> None:
        """Show the changes of the chosen member, or those for a task."""
        self._member.open("diff", task=task)

    def action_show_page(self, page: str) -> None:
        self.show_page(page)

    def show_page(self, page: str, *, graph: bool = False) -> None:
        """Open a whole page about the team."""
        if self._look is None:
            self.tell("The team is still starting.")
            return
        self._page = load("bullpen.doors.tui.panes.page_screen:PageScreen")(
            page, self._terminal, self._look, self._assign, graph=graph
        )
        self.app.push_screen(self._page)

    def _assign(self, task: str) -> None:
        self.act(lambda acts: acts.assign(task, None))

    def action_next_mode(self) -> None:
        name = self.chosen
        if name is not None:
            self.act(lambda acts: acts.next_mode(name))

    # What ends something.

    def action_escape(self) -> None:
        """Close what is open; if nothing is, interrupt the chosen agent's turn."""
        if self._completions.is_open:
            self._completions.close()
            self._line.completing = False
        elif self._answering.leave():
            self._relabel()
        elif self.focused is not self._line:
            self._line.focus()
        elif self.chosen is not None:
            self.interrupt(self.chosen)

    def interrupt(self, name: str) -> None:
        """End an agent's turn, if it has one."""
        card = None if self._look is None else self._look.member(name)
        if card is None or card.state not in ("working", "waiting"):
            empties = " Ctrl-C empties the line." if self._line.text else ""
            idle = f"{self.shown_name(name)} is not working: there is nothing to interrupt."
            self.tell(idle + empties)
            return
        self.talk_to(name)
        self.act(lambda acts: acts.interrupt(name))

    async def action_clear_or_quit(self) -> None:
        """Empty the line; an empty one: stop the run, or leave."""
        if self._line.text:
            self._line.take()
        else:
            await self.app.action_quit()

    async def action_delete_or_leave(self) -> None:
        """In a text, delete; in an empty line, finish the run, or leave."""
        if self._line.text:
            self._line.action_delete_right()
        elif not self._is_run:
            await self.app.action_quit()
        elif self._team is None:
            self.tell("The team is still starting.", "Ctrl-C stops it.")
        elif anyio.current_time() - self._leaving_s < AGAIN_S:
            self.act(lambda acts: acts.finish(""))
        else:
            self._leaving_s = anyio.current_time()
            self.tell("Press Ctrl-D again to finish the run: its agents stop.")

    @property
    def _is_run(self) -> bool:
        return bool(getattr(self.app, "is_run", False))

    def quit(self) -> None:
        getattr(self.app, "stop", self.app.exit)()

    def leave_team(self) -> None:
        """Go to the list of teams."""
        if self._is_run:
            self.tell("This screen belongs to a run.", "In another terminal: bullpen tui")
        else:
            self.dismiss()
