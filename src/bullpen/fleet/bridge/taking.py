"""From where the team lives to the home: what the home has to be given. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.fleet.bridge.remembered import Remembered
from bullpen.fleet.bridge.residents import Residents, changed, fields
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.store.base import TeamState, View


@dataclass(frozen=True, slots=True)
class Taking:
    """A home on its way to what the team is.

    Records are compared, so that whatever went wrong before is put right. A record that is not
    what the home's log says of it was changed just now: it waits until that change was sent, or
    somebody would see it undone and done again.
    """

    state: TeamState
    remembered: Remembered
    residents: Residents
    mail: Sequence[Deliver] = ()

    def decide(self, view: View) -> Sequence[Change]:
        """The changes to make in the home. It may run several times."""
        return [
            *self._team(view),
            *self._tasks(view),
            *self._requests(view),
            *(each for each in self.mail if not self.remembered.knows(each.to, each.message.id)),
        ]

    def _team(self, view: View) -> list[Change]:
        known, there, home = self.remembered.folded, self.state.team, view.team
        changes: list[Change] = []
        if not _unsent(fields(home.header), fields(known.team)):
            header = changed(fields(home.header), fields(there.header))
            changes += [PutTeam(header)] if header else []
        here = {member.name: member for member in home.roster}
        wanted = {member.name: self.residents.row(there, member) for member in there.roster}
        for name in (*wanted, *(name for name in here if name not in wanted)):
            row = here.get(name)
            now = None if row is None else row.raw
            if row == wanted.get(name) or _unsent(now, known.members.get(name)):
                continue
            changes.append(PutMember(wanted[name]) if name in wanted else RemoveMember(name))
        return changes

    def _tasks(self, view: View) -> list[Change]:
        here, wanted, dismissed = view.tasks(), self.state.tasks, self._dismissed()
        changes: list[Change] = []
        for task_id in (*wanted, *(task_id for task_id in here if task_id not in wanted)):
            task = here.get(task_id)
            now = None if task is None else task.raw
            logged = self.remembered.folded.tasks.get(task_id)
            if task == wanted.get(task_id) or _unsent(now, logged) or task_id in dismissed:
                continue
            changes.append(PutTask(wanted[task_id]) if task_id in wanted else DeleteTask(task_id))
        return changes

    def _dismissed(self) -> set[str]:
        """The tasks that the home was given, has done with, and need not see again.

        A task that waits for one of them does not begin in a program that cannot see that one.
        """
        tasks = self.state.tasks
        done = {task_id for task_id, task in tasks.items() if task.status == "completed"}
        waited_for = {
            blocker
            for task_id, task in tasks.items()
            if task_id not in done
            for blocker in task.blocked_by
        }
        return (self.remembered.dismissed & done) - waited_for

    def _requests(self, view: View) -> list[Change]:
        changes: list[Change] = []
        here = view.requests()
        for request_id, request in self.state.requests.items():
            held = here.get(request_id)
            now = None if held is None else held.raw
            logged = self.remembered.folded.requests.get(request_id)
            if held != request and not _unsent(now, logged):
                changes.append(PutRequest(request))
        return changes


def _unsent(now: dict[str, Any] | None, logged: dict[str, Any] | None) -> bool:
    return now != logged
