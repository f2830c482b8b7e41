"""What keys do to a team: answer, write, assign, stop, attach; and what came of it, in a notice."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from textual.app import App, SuspendNotSupported

from bullpen.agents import processes
from bullpen.errors import BullpenError, Refused
from bullpen.office import Office
from bullpen.protocol.names import EVERYBODY
from bullpen.tui.dialogs import Confirm, Pick, Writing
from bullpen.tui.ink import Ink
from bullpen.tui.pane import Look
from bullpen.view.acts import Acts, shown_input
from bullpen.view.scene import AskCard
from bullpen.view.text import json_text

T = TypeVar("T")

_ENDED = ("failed", "stopped", "lost")


class Deeds:
    """What a person does in one team from this screen. Nothing here raises: it is told."""

    def __init__(
        self, app: App[Any], office: Office, team: str, ink: Ink, look: Callable[[], Look | None]
    ) -> None:
        self._app, self._office, self._team, self._ink = app, office, team, ink
        self._acts = Acts(office, team)
        self._look = look

    def approve(self, ask: AskCard, *, always: bool = False) -> None:
        """Allow what is asked, once or always."""
        if always and not ask.always:
            self.tell("Nothing can be allowed for good here.", "Allow it once: a", bad=True)
            return
        self._begin(self._approve(ask, always))

    def edit(self, ask: AskCard) -> None:
        """Allow it with another input."""
        if ask.input is None:
            self.tell("This has no input to change.", "Approve it (a) or deny it (d).", bad=True)
            return
        self._begin(self._edit(ask))

    def deny(self, ask: AskCard) -> None:
        """Say no, and why."""
        self._begin(self._deny(ask))

    def message(self, to: str | None) -> None:
        """Write to a member; without one, ask to whom."""
        self._begin(self._message(to))

    def assign(self, task: str | None, member: str | None) -> None:
        """Give a task to a member; what is not known is asked for."""
        self._begin(self._assign(task, member))

    def stop(self, name: str) -> None:
        """Stop an agent, if a person is sure."""
        self._begin(self._stop(name))

    def attach(self, name: str) -> None:
        """Show an agent's own terminal in the place of this screen."""
        self._begin(self._attach(name))

    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None:
        """Show a notice."""
        lines = [self._ink.fit(line, 600) for line in (message, more) if line]
        self._app.notify(
            "\n".join(lines),
            severity="error" if bad else "information",
            timeout=12 if bad else 5,
            markup=False,
        )

    def _begin(self, deed: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._safely(deed), group="deeds", exit_on_error=False)

    async def _safely(self, deed: Awaitable[T]) -> None:
        try:
            await deed
        except BullpenError as error:
            self.tell(error.message, error.remedy, bad=True)
        except Exception as error:
            self.tell(
                f"This is a bug in bullpen: {type(error).__name__}: {error}",
                "Nothing else is harmed by it. Please report it.",
                bad=True,
            )

    async def _approve(self, ask: AskCard, always: bool, changed: str | None = None) -> None:
        given = await self._acts.approve(ask.id, digest=ask.digest, changed=changed, always=always)
        how = ", always from now on" if always else ", with your input" if changed else ""
        self.tell(f"Allowed {ask.sender}: {ask.about}{how}", given.untold or "")

    async def _edit(self, ask: AskCard) -> None:
        title = f"{ask.sender}: {ask.about}. It will be allowed with this input:"
        text = await self._app.push_screen_wait(
            Writing(self._ink, title, text=_editable(ask), send="Approve")
        )
        if text is not None:
            await self._approve(ask, always=False, changed=text)

    async def _deny(self, ask: AskCard) -> None:
        title = f"Deny {ask.sender}: {ask.about}. Why? It is told your words."
        why = await self._app.push_screen_wait(Writing(self._ink, title, send="Deny"))
        if why is None:
            return
        await self._acts.deny(ask.id, digest=ask.digest, why=why.strip() or None)
        self.tell(f"Denied {ask.sender}: {ask.about}")

    async def _message(self, to: str | None) -> None:
        if to is None:
            everybody = (EVERYBODY, f"{EVERYBODY}  everybody")
            to = await self._pick("Write to whom?", [everybody, *self._members()])
        if to is None:
            return
        whom = "everybody" if to == EVERYBODY else to
        text = await self._app.push_screen_wait(Writing(self._ink, f"To {whom}:"))
        if text is not None:
            await self._acts.send(to, text)
            self.tell(f"Sent to {whom}.")

    async def _assign(self, task: str | None, member: str | None) -> None:
        if task is None:
            rows = self._open_tasks()
            if not rows:
                self.tell("There is no task that is not done.", "Add one: bullpen task add TEXT")
                return
            task = await self._pick(f"Which task for {member or 'whom'}?", rows)
            if task is None:
                return
        if member is None:
            member = await self._pick(f"Who gets task #{task}?", self._members())
        if member is not None:
            await self._acts.assign(task, member)
            self.tell(f"Task #{task} is {member}'s.")

    async def _stop(self, name: str) -> None:
        about = "It ends with all it started. Its unfinished tasks become pending again."
        if not await self._app.push_screen_wait(Confirm(self._ink, f"Stop {name}?", about)):
            return
        self.tell(f"Stopping {name}.")
        stopped = await self._acts.stop(name)
        self.tell(f"{name} is stopped." if stopped.was_alive else f"{name} had ended already.")

    async def _attach(self, name: str) -> None:
        supervisor = self._office.supervisor(self._team)
        view = next((each for each in await supervisor.agents() if each.name == name), None)
        words = None if view is None else supervisor.attach(view)
        if view is None or words is None:
            where = "none" if view is None or view.backend is None else view.backend
            raise Refused(
                f"{name} has no terminal to show (backend: {where}).",
                reason="nothing_to_see",
                remedy="Read its transcript: Enter",
            )
        if view.place is not None and processes.is_elsewhere(view.place):
            raise Refused(
                f"{name} runs on {view.place.host}, and so does its terminal.",
                reason="elsewhere",
                remedy=f"There: bullpen attach {name} -t {self._team}",
            )
        if view.state in _ENDED:
            raise Refused(
                f"{name} does not run any more ({view.state}).",
                reason="not_running",
                remedy="Read its transcript: Enter",
            )
        try:
            with self._app.suspend():
                # Nothing of ours may be drawn over it meanwhile: the loop stands still.
                code = subprocess.call(words)  # noqa: ASYNC221, S603
        except SuspendNotSupported:
            raise Refused(
                "This terminal cannot be handed over.",
                reason="no_terminal",
                remedy=f"In another one: bullpen attach {name} -t {self._team}",
            ) from None
        self._app.refresh(layout=True)
        if code:
            self.tell(f"The terminal of {name} could not be shown (exit {code}).", bad=True)

    async def _pick(self, title: str, rows: list[tuple[str, str]]) -> str | None:
        return await self._app.push_screen_wait(Pick(self._ink, title, rows))

    def _members(self) -> list[tuple[str, str]]:
        look = self._look()
        cards = () if look is None else look.scene.members
        return [(card.name, f"{card.name}  {self._ink.state(card.state)}") for card in cards]

    def _open_tasks(self) -> list[tuple[str, str]]:
        look = self._look()
        cards = () if look is None else look.scene.tasks
        return [
            (card.id, f"#{card.id} {card.subject}  {card.owner or ''}".rstrip())
            for card in cards
            if card.state != "done"
        ]


def _editable(ask: AskCard) -> str:
    """The input as JSON in which nothing can steer a terminal: it is escaped, and so the same."""
    text = shown_input(ask.input or {})
    return json_text(text.encode("utf-8", "backslashreplace")).decode()
