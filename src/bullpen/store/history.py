"""A whole log from elsewhere: whether a team can be made of it. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol import names
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutTeam
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import StoreLimits
from bullpen.store.checks import check_change
from bullpen.store.fold import Folded, apply, raw_of

# What was logged was not too long then.
_ANY_SIZE = StoreLimits(message_bytes_max=sys.maxsize)


def check_history(team: str, events: Sequence[Event]) -> Folded[dict[str, Any]]:
    """The team that a whole log describes.

    A log begins with `team.create`. That of a team which another program made has no such event:
    there the making of it was observed, sooner or later.

    Raises:
        Invalid: the name cannot be a team's, or the events are no whole log of one.
    """
    names.check_component(team, kind="team name")
    if not events or not (events[0].op == "team.create" or _is_observed(events)):
        raise _no_history(team, "they do not begin with team.create")
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
        raise _no_history(team, f"they give no team ({error})") from None
    if config.bad_rows:
        raise _no_history(team, f"they give a member that is none ({config.bad_rows[0][1]})")
    return folded


def _is_observed(events: Sequence[Event]) -> bool:
    return any(
        event.observed and any(isinstance(change, PutTeam) for change in event.changes)
        for event in events
    )


def _check(change: Change) -> None:
    match change:
        case Deliver(agent) | MarkMail(agent):
            # Messages of other programs may have no id; commits cannot mark mail, but logs do.
            names.check_component(agent, kind="member name")
        case _:
            check_change(change, _ANY_SIZE)


def _no_history(team: str, why: str) -> Invalid:
    return Invalid(
        f"These events are no whole log of a team, so {team!r} cannot be restored: {why}.",
        remedy="Take all events of a team, from number 1 on.",
    )
