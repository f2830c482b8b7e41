"""What keys do to a team: answer, write, assign, stop, attach. Each result is shown in a notice."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from textual.app import App as TextualApp
from textual.app import SuspendNotSupported

from bullpen.agents.supervisor.new_mode import mode_told
from bullpen.app.app import App
from bullpen.doors.actions.answer import shown_input
from bullpen.doors.actions.attach import attach_command
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.doors.tui.dialogs import Confirm, Pick, Writing
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.names import EVERYBODY
from bullpen.protocol.policy import MODES
from bullpen.view.scene import AskCard
from bullpen.view.task_state import FINISHED
from bullpen.view.text import json_text

P = ParamSpec("P")

_NOW = "now"
_READ_TRANSCRIPT = "Read its transcript: press Enter"


def _in_background(
    action: Callable[Concatenate[KeyActions, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[KeyActions, P], None]:
    """Run an action in a worker that shows its errors as notices."""

    @wraps(action)
    def begin(self: KeyActions, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._begin(action(self, *args, **kwargs))

    return begin


class KeyActions:
    """What a person does in one team from this screen. Nothing here raises."""

    def __init__(
        self,
        app: TextualApp[Any],
        bullpen_app: App,
        team: str,
        terminal: TerminalText,
        look: Callable[[], TeamLook | None],
    ) -> None:
        self._app, self._bullpen_app, self._team = app, bullpen_app, team
        self._terminal, self._look = terminal, look
        self._acts = PersonActions(bullpen_app, team)

    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None:
        lines = [self._terminal.fit(line, 600) for line in (message, more) if line]
        self._app.notify(
            "\n".join(lines),
            severity="error" if bad else "information",
            timeout=12 if bad else 5,
            markup=False,
        )

    def _begin(self, action: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._safely(action), group="key-actions", exit_on_error=False)

    async def _safely(self, action: Coroutine[Any, Any, None]) -> None:
        try:
            await action
        except BullpenError as error:
            self.tell(error.message, error.remedy, bad=True)
        except Exception as error:
            self.tell(
                f"This is a bug in Bullpen: {type(error).__name__}: {error}",
                "The team is not affected. Please report the bug.",
                bad=True,
            )

    @_in_background
    async def approve(
        self, ask: AskCard, *, always: bool = False, changed: str | None = None
    ) -> None:
        """Allow what is asked: once, always, or with a changed input."""
        if always and not ask.always:
            self.tell('No "always" rule fits this request.', "Approve it once: press a", bad=True)
            return
        if ask.kind == "question":
            await self._answer(ask)
            return
        choice = None
        if always and len(ask.choices) > 1:
            rows = [(name, line) for name, line in ask.choices]
            choice = await self._pick("Always allow:", rows)
            if choice is None:
                return
        given = await self._acts.approve(
            ask.id, digest=ask.digest, changed=changed, always=always, choice=choice
        )
        how = ", always from now on" if always else ", with your input" if changed else ""
        self.tell(f"Allowed {ask.sender}: {ask.about}{how}", given.untold or "")

    async def _answer(self, ask: AskCard) -> None:
        """Answer a question, in words or by the number of an option."""
        words = await self._write(f"{ask.sender} asks: {ask.about}. Your answer:", send="Answer")
        if words is not None:
            await self._acts.approve(ask.id, digest=ask.digest, words=words.strip() or None)
            self.tell(f"Answered {ask.sender}: {ask.about}")

    @_in_background
    async def edit(self, ask: AskCard) -> None:
        """Allow what is asked with another input."""
        if ask.input is None:
            self.tell("This request has no input to edit.", "Approve (a) or deny (d) it.", bad=True)
            return
        title = f"{ask.sender}: {ask.about}. Edit the input, then approve it:"
        text = await self._write(title, text=_editable(ask), send="Approve")
        if text is not None:
            self.approve(ask, changed=text)

    @_in_background
    async def deny(self, ask: AskCard) -> None:
        """Say no, with a reason."""
        title = f"Deny {ask.sender}: {ask.about}. Reason (the agent will see it):"
        why = await self._write(title, send="Deny")
        if why is not None:
            await self._acts.deny(ask.id, digest=ask.digest, why=why.strip() or None)
            self.tell(f"Denied {ask.sender}: {ask.about}")

    @_in_background
    async def message(self, to: str | None) -> None:
        """Write to a member; without one, ask to whom."""
        if to is None:
            everybody = (EVERYBODY, f"{EVERYBODY}  everybody")
            to = await self._pick("Write to whom?", [everybody, *self._members()])
        if to is None:
            return
        whom = "everybody" if to == EVERYBODY else self._shown_name(to)
        text = await self._write(f"To {whom}:")
        if text is not None:
            await self._acts.send(to, text)
            self.tell(f"Sent to {whom}.")

    @_in_background
    async def assign(self, task: str | None, member: str | None) -> None:
        """Give a task to a member; ask for what is not given."""
        if task is None:
            rows = self._open_tasks()
            if not rows:
                self.tell("All tasks are done.", "Add a task: bullpen task add TEXT")
                return
            whom = "whom" if member is None else self._shown_name(member)
            task = await self._pick(f"Which task for {whom}?", rows)
            if task is None:
                return
        if member is None:
            member = await self._pick(f"Assign task #{task} to whom?", self._members())
        if member is not None:
            await self._acts.assign(task, member)
            self.tell(f"Task #{task} is assigned to {self._shown_name(member)}.")

    @_in_background
    async def stop(self, name: str) -> None:
        """Stop an agent once the person has confirmed it."""
        about = "All its processes end. Its unfinished tasks become pending again."
        if await self._app.push_screen_wait(Confirm(self._terminal, f"Stop {name}?", about)):
            self.tell(f"Stopping {name}.")
            stopped = await self._acts.stop(name)
            self.tell(f"Stopped {name}." if stopped.was_alive else f"{name} had already ended.")

    @_in_background
    async def mode(self, name: str) -> None:
        """Give an agent another permission mode; for the lead, delegate is one of them."""
        current = await self._acts.mode(name)
        rows = [
            (str(each), f"{each}  {_NOW if each == current else ''}".rstrip()) for each in MODES
        ]
        mode = await self._pick(f"Mode of {self._shown_name(name)}?", rows)
        if mode is not None:
            self.tell(mode_told(name, await self._acts.set_mode(name, mode)))

    @_in_background
    async def attach(self, name: str) -> None:
        """Show an agent's own terminal instead of this screen."""
        words = await attach_command(
            self._bullpen_app.supervisor(self._team),
            self._team,
            name,
            instead=_READ_TRANSCRIPT,
            afterwards=_READ_TRANSCRIPT,
        )
        try:
            with self._app.suspend():
                # Blocks the event loop, so that nothing of ours is drawn over it.
                code = subprocess.call(words)  # noqa: ASYNC221, S603
        except SuspendNotSupported:
            raise Refused(
                f"Cannot show the terminal of {name} from here.",
                reason="no_terminal",
                remedy=f"In another terminal: bullpen attach {name} -t {self._team}",
            ) from None
        self._app.refresh(layout=True)
        if code:
            self.tell(f"Could not show the terminal of {name} (exit code {code}).", bad=True)

    async def _write(self, title: str, *, text: str = "", send: str = "Send") -> str | None:
        window = Writing(self._terminal, title, text=text, send=send)
        return await self._app.push_screen_wait(window)

    async def _pick(self, title: str, rows: list[tuple[str, str]]) -> str | None:
        return await self._app.push_screen_wait(Pick(self._terminal, title, rows))

    def _shown_name(self, name: str) -> str:
        look = self._look()
        return name if look is None else look.story.shown_name(name)

    def _members(self) -> list[tuple[str, str]]:
        look = self._look()
        cards = () if look is None else look.scene.members
        return [
            (card.name, f"{self._shown_name(card.name)}  {self._terminal.state(card.state)}")
            for card in cards
        ]

    def _open_tasks(self) -> list[tuple[str, str]]:
        look = self._look()
        cards = () if look is None else look.scene.tasks
        return [
            (card.id, f"#{card.id} {card.subject}  {self._shown_name(card.owner or '')}".rstrip())
            for card in cards
            if card.state not in FINISHED
        ]


def _editable(ask: AskCard) -> str:
    """The input as JSON in which control characters are escaped: the same value, safe to show."""
    text = shown_input(ask.input or {})
    return json_text(text.encode("utf-8", "backslashreplace")).decode()
