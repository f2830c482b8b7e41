"""One commit that answers: the step between a rule and the store, and who takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from bullpen.protocol.changes import Change
from bullpen.store.base import Store, View
from bullpen.store.clock import Clock, now_ms
from bullpen.team.ids import NewId, new_id
from bullpen.team.move_rules import refuse_moved

T = TypeVar("T")


async def settle(
    store: Store,
    team: str,
    decide: Callable[[View], tuple[T, Sequence[Change]]],
    *,
    by: str,
    op: str,
) -> T:
    """Commit the changes that `decide` returns, and return its result of the run that counted.

    Raises:
        Refused: there are changes, and the team was moved to another store (moved); or whatever
            `decide` refuses.
    """
    result: list[T] = []

    def run(view: View) -> Sequence[Change]:
        answer, changes = decide(view)
        if changes:
            refuse_moved(view.team)
        result[:] = [answer]
        return changes

    await store.commit(team, run, actor=by, op=op)
    return result[0]


class Part:
    """What every part of a team stands on: its store, its name, the time and fresh ids."""

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
