"""A team moves to another store as a whole, and lives in exactly one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from bullpen.errors import BullpenError
from bullpen.store.contract import Store
from bullpen.store.memory import MemoryStore
from support.store.moving_teams import Died, lived, living, moved, shown, unavailable

pytestmark = pytest.mark.no_loss


class Life:
    """Ends before or after the n-th call of a store."""

    def __init__(self, n: int, *, after: bool, how: Callable[[], BaseException] = Died) -> None:
        self._left, self._after, self._how = n, after, how

    def lived_by(self, store: Store) -> Store:
        return cast("Store", _Mortal(store, self))

    async def spend(self, call: Callable[[], Awaitable[Any]]) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise self._how()
        try:
            return await call()
        finally:
            if self._left == 0:
                raise self._how()


class _Mortal:
    def __init__(self, store: Store, life: Life) -> None:
        self._store, self._life = store, life

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)
        return lambda *args, **options: self._life.spend(lambda: method(*args, **options))


@pytest.mark.parametrize("how", [Died, unavailable], ids=["killed", "failed"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("keep", [False, True], ids=["removed", "kept"])
async def test_cut_short_at_any_step_the_same_move_finishes_it(
    keep: bool, after: bool, how: Callable[[], BaseException]
) -> None:
    original = MemoryStore()
    events = await lived(original)
    before = await shown(original)
    for n in range(1, 1_000):
        source, target = MemoryStore(), MemoryStore()
        await source.restore("alpha", events)
        life = Life(n, after=after, how=how)
        try:
            await moved(life.lived_by(source), life.lived_by(target), keep=keep)
            break
        except (Died, BullpenError):
            pass
        assert len(await living(source, target)) <= 1, n
        copies = [store for store in (source, target) if await store.teams()]
        assert any([await shown(store) == before for store in copies]), n
        answer = await moved(source, target, keep=keep)
        assert await living(source, target) == [1], n
        assert await shown(target) == before, n
        assert await source.teams() == (["alpha"] if keep else []), n
        again = await moved(source, target, keep=keep)
        assert (again.events, again.digest) == (answer.events, answer.digest), n
    assert n > 30
