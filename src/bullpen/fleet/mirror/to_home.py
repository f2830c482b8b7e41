"""From the team's store to the home: what the home lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.fleet.mirror.home_log import HomeLog
from bullpen.fleet.mirror.residents import Residents, changed, fields
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)
from bullpen.protocol.record import Wire
from bullpen.store.contract import TeamState, View


@dataclass(frozen=True, slots=True)
class Taking:
    """A home being updated to the team.

    Records are compared, so that earlier mistakes are corrected. A record that differs from the
    home's log was changed just now: it is left alone until that change was sent, so that nobody
    sees it undone and done again.
    """

    state: TeamState
    remembered: HomeLog
    residents: Residents
    mail: Sequence[Deliver] = ()

    def decide(self, view: View) -> Sequence[Change]:
        """Return the changes to make in the home. It may run several times."""
        return [
            *self._team(view),
            *self._tasks(view),
            *self._requests(view),
            *self._notes(view),
            *(each for each in self.mail if not self.remembered.knows(each.to, each.message.id)),
        ]

    def _team(self, view: View) -> list[Change]:
        known, there, home = self.remembered.folded, self.state.team, view.team
        changes: list[Change] = []
        if fields(home.header) == fields(known.team):
            header = changed(fields(home.header), fields(there.header))
            changes += [PutTeam(header)] if header else []
        here = {member.name: member for member in home.roster}
        wanted = {member.name: self.residents.row(there, member) for member in there.roster}
        for name in _outdated(here, wanted, known.members):
            changes.append(PutMember(wanted[name]) if name in wanted else RemoveMember(name))
        return changes

    def _tasks(self, view: View) -> list[Change]:
        wanted, dismissed = self.state.tasks, self._dismissed()
        return [
            PutTask(wanted[task_id]) if task_id in wanted else DeleteTask(task_id)
            for task_id in _outdated(view.tasks(), wanted, self.remembered.folded.tasks)
            if task_id not in dismissed
        ]

    def _dismissed(self) -> set[str]:
        """Return the tasks that the home got, is done with, and need not see again.

        A program would never start a task that depends on one it cannot see.
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
        wanted, logged = self.state.requests, self.remembered.folded.requests
        here = view.requests()
        return [
            PutRequest(wanted[key]) if key in wanted else RemoveRequest(key)
            for key in _outdated(here, wanted, logged)
            if key in wanted or here[key].state != "pending"
        ]

    def _notes(self, view: View) -> list[Change]:
        wanted, logged = self.state.notes, self.remembered.folded.notes
        return [
            PutNote(wanted[name])
            for name in _outdated(view.notes(), wanted, logged)
            if name in wanted
        ]


def _outdated(
    here: Mapping[str, Wire], wanted: Mapping[str, Wire], logged: Mapping[str, dict[str, Any]]
) -> Iterator[str]:
    """Return the keys of records that differ from the team's and were not changed just now."""
    for key in {**wanted, **here}:
        record = here.get(key)
        now = None if record is None else record.raw
        if record != wanted.get(key) and now == logged.get(key):
            yield key
