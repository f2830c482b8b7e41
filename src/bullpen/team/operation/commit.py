"""Runs a rule and commits its changes to the store, unless the team was moved away."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, PutTeam
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.record import Wire
from bullpen.protocol.team import TeamConfig, TeamFacts
from bullpen.store.contract import Store, View
from bullpen.team.lead_rules import check_commit

T = TypeVar("T")

NewId = Callable[[], str]
"""Returns an id that nobody else has."""

MOVED_TO = "movedTo"
"""The key of the mark that closes a team."""


class MovedMark(Wire):
    """Where a team is moved to, and by which attempt."""

    to: str
    run: str
    by: str
    at_ms: int


def new_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())


def mark_in(facts: Any) -> MovedMark | None:
    """Return the mark that closes the team with these facts, or None if it is open."""
    try:
        return MovedMark.parse(facts.get(MOVED_TO)) if isinstance(facts, dict) else None
    except ValueError:
        return None


def mark_of(team: TeamConfig) -> MovedMark | None:
    """Return the mark that closes a team, or None if it is open."""
    return mark_in(team.bullpen)


def refuse_moved(team: TeamConfig) -> None:
    """Refuse every change to a team that was moved or is being moved.

    Raises:
        Refused: moved; the message says where it is.
    """
    mark = mark_of(team)
    if mark is not None:
        raise moved_away(team.name, mark)


def moved_away(team: str, mark: MovedMark) -> Refused:
    """Return the error for a closed team."""
    return Refused(
        f"Team {team!r} was moved to {mark.to}. The copy here is closed.",
        reason="moved",
        remedy="Use the team there. If the move was interrupted, finish it: bullpen team move "
        f"{team} --to {mark.to}",
    )


async def settle(
    store: Store,
    team: str,
    decide: Callable[[View], tuple[T, Sequence[Change]]],
    *,
    by: str,
    op: str,
) -> T:
    """Commit the changes that `decide` returns; return its result from the last attempt.

    Raises:
        Refused: only the lead may do this (not_lead), the team was moved to another store (moved)
            and there are changes, or `decide` refuses.
    """
    result: list[T] = []

    def run(view: View) -> Sequence[Change]:
        answer, changes = decide(view)
        check_commit(view.team, op, by)
        if changes:
            refuse_moved(view.team)
        result[:] = [answer]
        return changes

    await store.commit(team, run, actor=by, op=op)
    return result[0]


class TeamPart:
    """What every part of a team needs: its store, its name, a clock and new ids."""

    def __init__(
        self, store: Store, team: str, *, clock: Clock = now_ms, new_id: NewId = new_id
    ) -> None:
        self._store = store
        self._team = team
        self._clock = clock
        self._new_id = new_id

    async def _settle(
        self, decide: Callable[[View], tuple[T, Sequence[Change]]], *, by: str, op: str
    ) -> T:
        return await settle(self._store, self._team, decide, by=by, op=op)

    async def _change_facts(
        self, change: Callable[[TeamFacts, View], TeamFacts], *, by: str, op: str
    ) -> TeamFacts:
        """Commit the facts of the team that `change` returns, and return them."""

        def decide(view: View) -> tuple[TeamFacts, Sequence[Change]]:
            before = view.team.facts
            after = change(before, view)
            return after, () if after == before else [PutTeam({"bullpen": after.raw})]

        return await self._settle(decide, by=by, op=op)
