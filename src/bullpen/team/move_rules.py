"""A team that is being moved, or was: the mark that closes it, and what it keeps from happening.

Pure. The mark is a field of the team itself, so it is part of its log, and of every copy of it. A
team with the mark is read as ever and refuses all else.
"""

from __future__ import annotations

from typing import Any

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, DeleteTask, Event, PutTask, PutTeam
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.wire import Wire
from bullpen.store.base import View

_MARK = "movedTo"
OPENED = "team.moved"
"""The event with which a copy begins to live."""


class Mark(Wire):
    """Where a team goes, and the attempt that takes it there."""

    to: str
    run: str
    by: str
    at_ms: int


def mark_of(team: TeamConfig) -> Mark | None:
    """The mark that closes a team; None if it lives."""
    return _mark_in(team.bullpen)


def _mark_in(facts: Any) -> Mark | None:
    try:
        return Mark.parse(facts.get(_MARK)) if isinstance(facts, dict) else None
    except ValueError:
        return None


def closing(view: View, mark: Mark) -> list[Change]:
    """The changes that close a team.

    The highest task id that was ever given may be known to files alone. It enters the log, as a
    task that comes and goes, or the copy would give that id again.
    """
    facts = view.team.bullpen if isinstance(view.team.bullpen, dict) else {}
    changes: list[Change] = [PutTeam({"bullpen": {**facts, _MARK: mark.raw}})]
    last = str(view.next_task_id - 1)
    if last != "0" and view.task(last) is None:
        given = Task.new(id=last, subject="Given before", description="", status="pending")
        changes += [PutTask(given), DeleteTask(last)]
    return changes


def opening(team: TeamConfig) -> list[Change]:
    """The changes that let a closed team live."""
    facts = team.bullpen if isinstance(team.bullpen, dict) else {}
    rest = {key: value for key, value in facts.items() if key != _MARK}
    return [PutTeam({"bullpen": rest or None})]


def closed_by(event: Event) -> Mark | None:
    """The mark that an event put on a team."""
    return next(filter(None, map(_mark_in, _facts_put(event))), None)


def may_open(event: Event) -> bool:
    """Whether an event took the mark off a team, if there was one."""
    return any(_mark_in(facts) is None for facts in _facts_put(event))


def _facts_put(event: Event) -> list[Any]:
    fields = (change.fields for change in event.changes if isinstance(change, PutTeam))
    return [each["bullpen"] for each in fields if "bullpen" in each]


def refuse_moved(team: TeamConfig) -> None:
    """Refuse whatever would change a team that is elsewhere, or on its way.

    Raises:
        Refused: moved; the text says where to.
    """
    mark = mark_of(team)
    if mark is not None:
        raise moved(team.name, mark)


def moved(team: str, mark: Mark) -> Refused:
    """The error for a team that is closed."""
    return Refused(
        f"Team {team!r} was moved to {mark.to}; what is here is closed.",
        reason="moved",
        remedy=f"Work with it there. If the move was cut short, finish it: "
        f"bullpen team move {team} --to {mark.to}",
    )
