"""Answers mail to the lead of a team that has none: tasks are assigned by code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio

from bullpen.errors import NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import payload_of
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team

_LOOK_S = 15.0

_ANSWER = (
    "No agent leads this team and no person reads this: tasks are assigned by code. Decide"
    " yourself, based on the task. If you cannot finish it, set it back to pending, write in its"
    " report what blocks you, and take the next task."
)


class LeadMail:
    """Answers teammates that write to the lead of a team without a lead."""

    name = "mail to the lead"

    def __init__(self, team: Team) -> None:
        self._team = team
        # The attempts at tasks for which a question was answered: once is enough.
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
        """Answer new messages. Returns who got an answer. Reports need none."""
        unread = (await self._team.mailbox.read(LEAD)).unread
        if not unread:
            return []
        wrote = dict.fromkeys(
            entry.message.sender
            for entry in unread
            if payload_of(entry.message.text) is None and entry.message.sender != LEAD
        )
        # Only a teammate with a task may be waiting for an answer.
        tasks = (await self._team.tasks.list()).tasks
        working = [task for task in tasks if task.status == "in_progress"]
        busy = {owner_of(task, self._team.name): (task.id, task.facts.attempt) for task in working}
        self._answered &= {(task.id, task.facts.attempt) for task in working}
        asked = [name for name in wrote if name in busy and busy[name] not in self._answered]
        answered = []
        for name in asked:
            task_id, attempt = busy[name]
            try:
                # After a kill, nothing is answered twice: an answer has a key.
                await self._team.mailbox.send(
                    name,
                    _ANSWER,
                    sender=LEAD,
                    summary="There is no lead; decide yourself",
                    key=f"no-lead {task_id} {attempt}",
                )
            except (NotFound, Refused):
                # It has ended, and resumes its task without an answer.
                continue
            answered.append(name)
            self._answered.add(busy[name])
        await self._team.mailbox.mark(LEAD, [entry.id for entry in unread], "seen")
        return answered
