"""Checks that a log from elsewhere is complete and gives a team. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol import names
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutTeam, UnknownChange
from bullpen.protocol.team import TeamConfig
from bullpen.store.events.checkpoint import is_begin
from bullpen.store.events.fold import Folded, apply, raw_of
from bullpen.store.record_checks import ANY_SIZE, check_change


def check_history(team: str, events: Sequence[Event]) -> Folded[dict[str, Any]]:
    """Return the team that a whole log describes. Raises Invalid if it is not a whole log.

    A log begins with `team.create`, except for a team created by another program: its creation was
    observed at some point.
    """
    names.check_component(team, kind="team name")
    if not events or not (
        events[0].op == "team.create" or is_begin(events[0], 0) or _is_observed(events)
    ):
        raise _no_history(team, "the first event is not team.create")
    folded: Folded[dict[str, Any]] = Folded()
    for event in events:
        try:
            for change in event.changes:
                _check(change)
            apply(folded, event, keep=raw_of)
        except ValueError as error:
            raise _no_history(team, str(error)) from None
        except Invalid as error:
            raise _no_history(team, f"event {event.seq}: {error.message}") from None
    try:
        config = TeamConfig.parse({**folded.team, "members": list(folded.members.values())})
    except ValueError as error:
        raise _no_history(team, f"they do not give a team ({error})") from None
    if config.bad_rows:
        raise _no_history(team, f"they give an invalid member ({config.bad_rows[0][1]})")
    return folded


def _is_observed(events: Sequence[Event]) -> bool:
    return any(
        event.observed and any(isinstance(change, PutTeam) for change in event.changes)
        for event in events
    )


def _check(change: Change) -> None:
    match change:
        case Deliver(agent) | MarkMail(agent):
            # Messages from other programs may have no id. Logs can mark mail, commits cannot.
            names.check_component(agent, kind="member name")
        case UnknownChange():
            pass  # A newer version made it: it stays in the log.
        case _:
            check_change(change, ANY_SIZE)


def _no_history(team: str, why: str) -> Invalid:
    return Invalid(
        f"Team {team!r} cannot be restored, because these events are not its whole log: {why}.",
        remedy="Restore all events of the team, starting with number 1.",
    )
