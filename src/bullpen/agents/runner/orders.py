"""Obey the orders that an agent gets by mail: stop, pause, a new mode. No model reads them."""

from __future__ import annotations

import anyio

from bullpen.agents.mail.sorting import SortedMail, triage
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.protocol.payloads import Control, ModeSetRequest


class Orders:
    """The orders to one agent, and whether it is paused."""

    def __init__(self, desk: RunnerDesk) -> None:
        self._desk = desk
        self._obeying = anyio.Lock()
        self.paused = False

    async def sorted_mail(self) -> SortedMail:
        """The unread mail, sorted."""
        entries = await self._desk.unread()
        if not entries:
            return SortedMail((), (), urgent=False, reports=False)
        config = await self._desk.team.agents.config()
        return triage(entries, config, agent=self._desk.agent, waits=self._desk.waits_for_words)

    async def obey(self) -> SortedMail:
        """Obey new orders and mark them as seen; returns the unread mail.

        The loop and the listener take turns, so that each order is obeyed once and in its place.
        """
        async with self._obeying:
            mail = await self.sorted_mail()
            for entry, payload in mail.orders:
                if isinstance(payload, ModeSetRequest):
                    await self._desk.planning.told_mode(entry, payload)
                elif not isinstance(payload, Control):
                    await self._desk.planning.heard(entry, payload)
            # Nothing waits here: an order may cancel the turn in which it is obeyed.
            for entry, payload in mail.orders:
                if isinstance(payload, Control):
                    voice = "human" if entry.message.is_of_a_person else None
                    sender, why = entry.message.sender, payload.reason
                    about = {"sender": sender, "voice": voice, "reason": why}
                    self._desk.record("order", action=payload.action, **about)
                    self._follow(payload)
                    if payload.action == "cancel" and voice is not None:
                        self._desk.waits_for_words = True
            await self._desk.seen([entry.id for entry, _ in mail.orders])
            return mail

    def _follow(self, order: Control) -> None:
        control = self._desk.control
        match order.action:
            case "stop":
                control.stop("stopped", order.reason or f"{order.sender} ordered it")
            case "pause":
                self.paused = True
                control.interrupt("pause")
                self._desk.enter("waiting", f"paused by {order.sender}")
            case "resume":
                self.paused = False
                self._desk.enter("idle")
            case "cancel":
                control.interrupt("cancel")
