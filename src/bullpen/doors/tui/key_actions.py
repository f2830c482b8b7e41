"""What a person does to a team: answer, write, start, stop, attach. Each result is told."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol

from anyio import to_thread
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
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.protocol.policy import Mode
from bullpen.view.scene import AskCard
from bullpen.view.text import json_text

P = ParamSpec("P")

_READ_TRANSCRIPT = "Read its transcript: press F4"
_CYCLE: tuple[Mode, ...] = ("default", "acceptEdits", "plan")
"""The modes that one key goes through; for the lead, delegate too. Others need their name."""


class Teller(Protocol):
    """Tells the person what came of an action."""

    def __call__(self, message: str, more: str = "", *, bad: bool = False) -> None: ...


def _in_background(
    action: Callable[Concatenate[KeyActions, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[KeyActions, P], None]:
    """Run an action in a worker that tells its errors."""

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
        tell: Teller,
    ) -> None:
        self._app, self._bullpen_app, self._team = app, bullpen_app, team
        self._terminal, self._look, self._tell = terminal, look, tell
        self._acts = PersonActions(bullpen_app, team)

    def _begin(self, action: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._safely(action), group="key-actions", exit_on_error=False)

    async def _safely(self, action: Coroutine[Any, Any, None]) -> None:
        try:
            await action
        except BullpenError as error:
            self._tell(error.message, error.remedy, bad=True)
        except Exception as error:
            self._tell(
                f"This is a bug in Bullpen: {type(error).__name__}: {error}",
                "The team is not affected. Please report the bug.",
                bad=True,
            )

    @_in_background
    async def approve(
        self,
        ask: AskCard,
        *,
        always: bool = False,
        choice: str | None = None,
        words: str | None = None,
    ) -> None:
        """Allow what is asked: once, always, or with words."""
        await self._allow(ask, always=always, choice=choice, words=words)

    async def _allow(
        self,
        ask: AskCard,
        *,
        always: bool = False,
        choice: str | None = None,
        changed: str | None = None,
        words: str | None = None,
    ) -> None:
        given = await self._acts.approve(
            ask.id, digest=ask.digest, changed=changed, always=always, choice=choice, words=words
        )
        verb = {"plan": "Approved the plan of", "question": "Answered"}.get(ask.kind, "Allowed")
        how = ", always from now on" if always else ", with your input" if changed else ""
        about = "" if ask.kind == "plan" else f": {ask.about}"
        self._tell(f"{verb} {self._name(ask.sender)}{about}{how}", given.warning)

    @_in_background
    async def deny(self, ask: AskCard, why: str) -> None:
        """Say no; the agent sees the reason, if there is one."""
        await self._acts.deny(ask.id, digest=ask.digest, why=why.strip() or None)
        verb = {"plan": "Rejected the plan of", "question": "Declined to answer"}.get(
            ask.kind, "Denied"
        )
        about = "" if ask.kind == "plan" else f": {ask.about}"
        self._tell(f"{verb} {self._name(ask.sender)}{about}")

    @_in_background
    async def edit(self, ask: AskCard) -> None:
        """Allow what is asked with another input."""
        title = f"{self._name(ask.sender)}: {ask.about}. Edit the input, then approve it:"
        text: str | None = _editable(ask)
        while text is not None:
            window = Writing(self._terminal, title, text=text, send="Approve")
            text = await self._app.push_screen_wait(window)
            try:
                if text is not None:
                    await self._allow(ask, changed=text)
                return
            except Invalid as error:
                # What was typed is mended, not typed again.
                title = f"{error.message} {error.remedy or ''}"

    @_in_background
    async def send(self, to: str, text: str, failed: Callable[[], None]) -> None:
        """Write to a member or to everybody; `failed` is called if it was not sent."""
        try:
            away = await self._acts.send(to, text)
        except BaseException:
            failed()
            raise
        if to == EVERYBODY:
            self._tell("Sent to everybody.")
        elif away is not None:
            self._tell(f"Sent to {self._name(to)}.", away)

    @_in_background
    async def interrupt(self, name: str) -> None:
        """End an agent's turn; the agent keeps running."""
        await self._acts.interrupt(name)
        self._tell(f"Interrupting {self._name(name)}. Tell it what to do instead.")

    @_in_background
    async def spawn(self, name: str, prompt: str) -> None:
        self._tell(f"Starting {name}.")
        await self._acts.spawn(name, prompt)
        self._tell(f"{name} is at work.")

    @_in_background
    async def add_task(self, subject: str) -> None:
        task = await self._acts.add_task(subject)
        self._tell(f"Added task #{task.id}.")

    @_in_background
    async def assign(self, task: str, member: str | None) -> None:
        """Give a task to a member; ask to whom if it is not said."""
        if member is None:
            rows = [(name, self._name(name)) for name in self._members()]
            window = Pick(self._terminal, f"Assign task #{task} to whom?", rows)
            member = await self._app.push_screen_wait(window)
        if member is not None:
            await self._acts.assign(task, member)
            self._tell(f"Task #{task} is assigned to {self._name(member)}.")

    @_in_background
    async def set_budget(self, words: str) -> None:
        usd = None if words.strip().casefold() == "none" else _usd(words)
        await self._acts.set_budget(usd)
        self._tell("The team has no budget." if usd is None else f"The budget is ${usd:.2f}.")

    @_in_background
    async def stop(self, name: str) -> None:
        """Stop an agent once the person has confirmed it."""
        shown = self._name(name)
        about = "All its processes end. Its unfinished tasks become pending again."
        if await self._app.push_screen_wait(Confirm(self._terminal, f"Stop {shown}?", about)):
            self._tell(f"Stopping {shown}.")
            stopped = await self._acts.stop(name)
            self._tell(f"Stopped {shown}." if stopped.was_alive else f"{shown} has ended.")

    @_in_background
    async def set_mode(self, name: str, mode: str) -> None:
        given = await self._acts.set_mode(name, mode)
        self._tell(mode_told(self._name(name), given))

    @_in_background
    async def next_mode(self, name: str) -> None:
        """Give an agent the mode that comes after its own."""
        modes = (*_CYCLE, "delegate") if name == LEAD else _CYCLE
        current = await self._acts.mode(name)
        at = modes.index(current) + 1 if current in modes else 0
        given = await self._acts.set_mode(name, modes[at % len(modes)])
        self._tell(mode_told(self._name(name), given))

    @_in_background
    async def finish(self, summary: str) -> None:
        """End the run: the lead's part is done by the person."""
        self._tell("Finishing the run: the agents stop.")
        await self._acts.finish(summary)

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
            # A run may go on beside this screen: only the drawing stops meanwhile.
            with self._app.batch_update(), self._app.suspend():
                code = await to_thread.run_sync(subprocess.call, words)
        except SuspendNotSupported:
            raise Refused(
                f"Cannot show the terminal of {name} from here.",
                reason="no_terminal",
                remedy=f"In another terminal: bullpen attach {name} -t {self._team}",
            ) from None
        self._app.refresh(layout=True)
        if code:
            self._tell(f"Could not show the terminal of {name} (exit code {code}).", bad=True)

    def _name(self, name: str) -> str:
        look = self._look()
        return name if look is None else look.name(name)

    def _members(self) -> list[str]:
        look = self._look()
        return [] if look is None else [card.name for card in look.scene.members]


def _usd(words: str) -> float:
    try:
        usd = float(words.strip().removeprefix("$"))
    except ValueError:
        usd = -1.0
    if not 0 < usd < float("inf"):
        raise Invalid(f"{words!r} is not an amount.", remedy="For example: /budget 5, /budget none")
    return usd


def _editable(ask: AskCard) -> str:
    """The input as JSON in which control characters are escaped: the same value, safe to show."""
    text = shown_input(ask.input or {})
    return json_text(text.encode("utf-8", "backslashreplace")).decode()
