"""A team to move, and what of it must be there afterwards."""

from __future__ import annotations

from typing import Any

from bullpen.errors import BullpenError
from bullpen.protocol.changes import Event
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.team.moving.move import Moved, move
from bullpen.team.operation.commit import mark_of
from bullpen.testing.restore_contract import boxes, live_through
from bullpen.testing.sample_records import config

THERE = "nats://there:4222"


async def lived(store: Store) -> list[Event]:
    """A team that has lived; its log."""
    await store.create("alpha", config(), actor=LEAD)
    await live_through(store)
    return await store.events("alpha")


async def moved(source: Store, target: Store, to: str = THERE, **options: Any) -> Moved:
    return await move(source, target, "alpha", to=to, by="ann", **options)


async def living(*stores: Store) -> list[int]:
    """In which of the stores the team lives."""
    found = []
    for index, store in enumerate(stores):
        if "alpha" in await store.teams() and mark_of(await store.config("alpha")) is None:
            found.append(index)
    return found


async def shown(store: Store) -> tuple[object, ...]:
    """What a store shows of the team, but for its log."""
    state = await store.read("alpha")
    header = {key: value for key, value in state.team.header.items() if key != "bullpen"}
    return header, state.team.roster, state.tasks, state.requests, await boxes(store, "alpha")


# Deaths


class Died(BaseException):
    """The process is gone: nothing is undone, nothing is caught."""


def unavailable() -> BullpenError:
    return BullpenError("The wire is cut.", remedy="Mend it.")
