"""Rules for a team that is being moved or was moved: the mark that closes it.

Pure. The mark is a field of the team, so it is in the log and in every copy. A team with the mark
can be read but not changed.
"""

from __future__ import annotations

from typing import Any

from bullpen.protocol.changes import Change, DeleteTask, Event, PutTask, PutTeam
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.team.operation.commit import MOVED_TO, MovedMark, mark_in

OPENED = "team.moved"
"""The event that opens a copy."""


def closing(view: View, mark: MovedMark) -> list[Change]:
    """Return the changes that close a team.

    The highest task id ever used may be recorded only in files. It is added to the log as a task
    that is created and deleted, so that the copy does not use that id again.
    """
    facts = view.team.bullpen if isinstance(view.team.bullpen, dict) else {}
    changes: list[Change] = [PutTeam({"bullpen": {**facts, MOVED_TO: mark.raw}})]
    last = str(view.next_task_id - 1)
    if last != "0" and view.task(last) is None:
        given = Task.new(id=last, subject="Given before", description="", status="pending")
        changes += [PutTask(given), DeleteTask(last)]
    return changes


def opening(team: TeamConfig) -> list[Change]:
    """Return the changes that open a closed team."""
    facts = team.bullpen if isinstance(team.bullpen, dict) else {}
    rest = {key: value for key, value in facts.items() if key != MOVED_TO}
    return [PutTeam({"bullpen": rest or None})]


def closed_by(event: Event) -> MovedMark | None:
    """Return the mark that an event put on a team."""
    return next(filter(None, map(mark_in, _facts_put(event))), None)


def may_open(event: Event) -> bool:
    """Return whether an event removed the mark of a team, if there was one."""
    return any(mark_in(facts) is None for facts in _facts_put(event))


def _facts_put(event: Event) -> list[Any]:
    fields = (change.fields for change in event.changes if isinstance(change, PutTeam))
    return [each["bullpen"] for each in fields if "bullpen" in each]
