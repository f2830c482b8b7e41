"""Several hosts that write to one team: all get through, and its log stays short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing

import anyio
import pytest
from anyio.lowlevel import checkpoint

from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import config, put, task
from support.store.nats_parts import empty, endpoint_of, servers

EVENTS_KEPT = 8
WRITERS = 4
COMMITS_EACH = 20
WITHIN_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(3) as cluster:
        yield cluster


@pytest.fixture
async def hosts(cluster: Cluster) -> AsyncIterator[list[NatsStore]]:
    """Two hosts that have members of one team, and so follow it."""
    async with AsyncExitStack() as stack:
        stores = [NatsStore(endpoint_of(cluster), events_kept=EVENTS_KEPT) for _ in range(2)]
        await empty(await stores[0].link.client())
        await stores[0].create("alpha", config(), actor=LEAD)
        for store in stores:
            stack.push_async_callback(store.aclose)
        for store in stores:
            changes = await stack.enter_async_context(aclosing(store.watch("alpha")))
            await anext(changes)
        yield stores


async def fresh(cluster: Cluster) -> NatsStore:
    store = NatsStore(endpoint_of(cluster))
    await store.read("alpha")
    return store


async def write(store: NatsStore) -> None:
    for number in range(COMMITS_EACH):
        await put(store, PutTask(task(str(number + 1))))


async def test_hosts_that_write_without_rest_all_get_through_and_keep_the_log_short(
    hosts: list[NatsStore], cluster: Cluster
) -> None:
    async with anyio.create_task_group() as group:
        for store in hosts:
            for _ in range(WRITERS):
                group.start_soon(write, store)
    store = await fresh(cluster)
    written = len(hosts) * WRITERS * COMMITS_EACH
    assert [event.seq for event in await store.events("alpha")] == list(range(1, written + 2))
    assert len(store._logs["alpha"]._tail.lines) < written // 2
    await store.aclose()


async def test_a_snapshot_that_always_comes_too_late_costs_few_parts_of_history(
    hosts: list[NatsStore], cluster: Cluster
) -> None:
    store, _ = hosts
    log = store._logs["alpha"]

    async def too_late(deadline: float) -> bool:
        return False

    log._put_snapshot = too_late  # type: ignore[method-assign]
    for _ in range(2):
        await write(store)
    assert 1 <= len(log.kept.parts) <= 2 * COMMITS_EACH // EVENTS_KEPT
    again = await fresh(cluster)
    assert len(await again.events("alpha")) == 2 * COMMITS_EACH + 1
    await again.aclose()


async def test_a_snapshot_brings_what_was_written_while_it_was_made(
    hosts: list[NatsStore], cluster: Cluster
) -> None:
    here, there = hosts
    for number in range(3):
        await put(here, PutTask(task(str(number + 1))))
    log = here._logs["alpha"]
    async with log.turn() as deadline:
        await log._store_history(deadline)
        await put(there, PutTask(task("9")), op="meanwhile")
        # The first is too late; what came before it is read then.
        await log._put_snapshot(deadline)
        await log._put_snapshot(deadline)
    store = await fresh(cluster)
    assert [event.op for event in await store.events("alpha")][-1] == "meanwhile"
    assert [event.seq for event in await store.events("alpha")] == [1, 2, 3, 4, 5]
    assert store._logs["alpha"].kept.parts[0].first == 1
    await store.aclose()


async def test_what_others_wrote_during_a_turn_is_known_when_it_ends(
    hosts: list[NatsStore],
) -> None:
    here, there = hosts
    log = here._logs["alpha"]

    async def heard() -> bool:
        return len(log._heard) == 2

    async with log.turn():
        await put(there, PutTask(task("1")))
        await put(there, PutTask(task("2")))
        assert await until(heard, WITHIN_S)
        assert log.kept.seq == 1
    assert log.kept.seq == 3


async def test_a_change_that_is_refused_often_waits_for_its_time_not_for_a_count(
    hosts: list[NatsStore],
) -> None:
    here, there = hosts
    log, lost = here._logs["alpha"], 0

    def plan(view: object) -> list[PutTask]:
        return [PutTask(task("1"))]

    original = log.append

    async def lose(*args: object, **options: object) -> bool:
        nonlocal lost
        lost += 1
        return await original(*args, **options) if lost > 60 else False  # type: ignore[arg-type]

    log.append = lose  # type: ignore[method-assign]
    log.stand_back = lambda times_lost: checkpoint()  # type: ignore[method-assign]
    await here.commit("alpha", plan, actor=LEAD, op="late")
    assert (await there.events("alpha"))[-1].op == "late"
