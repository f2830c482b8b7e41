"""The mail of a lead that does not exist: code leads, and says so to whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio

from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import payload_of
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team

_LOOK_S = 15.0

_ANSWER = (
    "No agent leads this team, and no person reads this now: tasks are handed out by code. Decide"
    " yourself by what the task says. If you cannot finish it, set it back to pending and say in"
    " its report what is in the way; then take the next one."
)


class LeadMail:
    """Answers teammates that write to the lead of a team that has none."""

    name = "mail to the lead"

    def __init__(self, team: Team) -> None:
        self._team = team
        # For which attempts at which tasks somebody was told: once is enough.
        self._answered: set[tuple[str, int]] = set()

    async def run(self, tell: Callable[[str], None]) -> None:
        """Answer until cancelled."""
        while True:
            await self.look()
            with anyio.move_on_after(_LOOK_S):
                async with aclosing(self._team.changes(agent=LEAD)) as changes:
                    await anext(changes)
                    await anext(changes)

    async def look(self) -> list[str]:
        """Answer what came since; returns who was answered. Reports need no answer."""
        unread = (await self._team.mailbox.read(LEAD)).unread
        if not unread:
            return []
        wrote = dict.fromkeys(
            entry.message.sender
            for entry in unread
            if payload_of(entry.message.text) is None and entry.message.sender != LEAD
        )
        # Whoever is at a task may wait for a word; others have only said something.
        busy = {
            owner_of(task, self._team.name): (task.id, task.facts.attempt)
            for task in (await self._team.tasks.list()).tasks
            if task.status == "in_progress"
        }
        asked = [name for name in wrote if name in busy and busy[name] not in self._answered]
        # Before the answer: a question that was answered must not be answered again after a kill.
        await self._team.mailbox.mark(LEAD, [entry.id for entry in unread], "seen")
        answered = []
        for name in asked:
            try:
                await self._team.mailbox.send(
                    name, _ANSWER, sender=LEAD, summary="Nobody leads; decide yourself"
                )
            except BullpenError:
                # It has ended by now, and takes up its task without an answer.
                continue
            answered.append(name)
            self._answered.add(busy[name])
        return answered
