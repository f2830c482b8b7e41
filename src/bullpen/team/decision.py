"""One commit that answers: the step between a rule and the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from bullpen.protocol.changes import Change
from bullpen.store.base import Store, View

T = TypeVar("T")


async def settle(
    store: Store,
    team: str,
    decide: Callable[[View], tuple[T, Sequence[Change]]],
    *,
    by: str,
    op: str,
) -> T:
    """Commit the changes that `decide` returns, and return its result of the run that counted."""
    result: list[T] = []

    def run(view: View) -> Sequence[Change]:
        answer, changes = decide(view)
        result[:] = [answer]
        return changes

    await store.commit(team, run, actor=by, op=op)
    return result[0]
