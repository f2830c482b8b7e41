"""Wake-ups that are lost: whoever watches a team still sees all that happens to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.servers.server_process import READY_S, Cluster, until
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.log.log import TeamLog
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import config, put, task
from support.nats_chaos.proxy import Frame, Proxy, Session, proxy_to
from support.store.nats_parts import empty, endpoint_of, servers

NEVER_S = 3_600.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture
async def writer(cluster: Cluster) -> AsyncIterator[NatsStore]:
    store = NatsStore(endpoint_of(cluster), events_kept=8)
    await empty(await store.link.client())
    await store.create("alpha", config(), actor=LEAD)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[Proxy]:
    async with proxy_to(cluster.nodes[0].ports.client) as proxy:
        yield proxy


class Watcher:
    """What somebody who watches a team was told last."""

    def __init__(self) -> None:
        self.seq = 0
        self._news = asyncio.Event()

    async def follow(self, store: NatsStore) -> None:
        async with aclosing(store.watch("alpha")) as changes:
            async for seq in changes:
                self.seq = seq
                self._news.set()

    async def reach(self, seq: int, within_s: float = 20.0) -> None:
        async with asyncio.timeout(within_s):
            while self.seq < seq:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def watching(
    endpoint: Endpoint, *, sweep_s: float
) -> AsyncIterator[tuple[NatsStore, Watcher]]:
    store, watcher = NatsStore(endpoint), Watcher()
    store._following._sweep_s = sweep_s
    following = asyncio.create_task(watcher.follow(store))
    try:
        await watcher.reach(1)
        yield store, watcher
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.aclose()


async def write(store: NatsStore, number: int) -> int:
    return (await put(store, PutTask(task(str(number))))).seq


async def write_when_led(store: NatsStore, number: int) -> int:
    """Write, though there may be no leader for longer than a write waits."""
    async with asyncio.timeout(READY_S):
        while True:
            try:
                return await write(store, number)
            except Unavailable:
                continue


async def lose_news(frame: Frame, session: Session) -> Frame | None:
    return None if frame.is_news else frame


async def test_a_lost_wake_up_is_noticed_with_the_next(proxy: Proxy, writer: NatsStore) -> None:
    async with watching(Endpoint((proxy.url,)), sweep_s=NEVER_S) as (_, watcher):
        proxy.answers = lose_news
        for number in range(3):
            await write(writer, number + 1)
        proxy.heal()
        await watcher.reach(await write(writer, 4))


async def test_the_last_wake_up_is_not_needed_either(proxy: Proxy, writer: NatsStore) -> None:
    async with watching(Endpoint((proxy.url,)), sweep_s=0.5) as (_, watcher):
        proxy.answers = lose_news
        await watcher.reach(await write(writer, 1))


async def test_all_is_seen_though_half_of_the_wake_ups_are_lost(
    proxy: Proxy, writer: NatsStore
) -> None:
    chance = random.Random(6)

    async def lose_half(frame: Frame, session: Session) -> Frame | None:
        return None if frame.is_news and chance.random() < 0.5 else frame

    async with watching(Endpoint((proxy.url,)), sweep_s=1.0) as (store, watcher):
        proxy.answers = lose_half
        for number in range(100):
            last = await write(writer, number + 1)
        await watcher.reach(last)
        assert store._logs["alpha"].kept.seq == last
        assert await store.checkup("alpha", fix=False) == []


async def test_two_who_begin_to_watch_at_once_share_one_subscription(
    proxy: Proxy, writer: NatsStore
) -> None:
    async with watching(Endpoint((proxy.url,)), sweep_s=NEVER_S) as (store, _):
        await store.create("beta", config("beta"), actor=LEAD)
        subscribed: list[str] = []

        async def note(frame: Frame, session: Session) -> Frame | None:
            if frame.verb == "SUB":
                subscribed.append(frame.subject)
            return frame

        proxy.asks = note
        watches = [store.watch("beta") for _ in range(3)]
        await asyncio.gather(*(anext(watch) for watch in watches))
        assert subscribed == [store._logs["beta"].address.news]
        for watch in watches:
            await watch.aclose()


async def test_who_watches_over_a_connection_that_the_library_gave_up_goes_on_watching(
    proxy: Proxy, writer: NatsStore
) -> None:
    async with watching(Endpoint((proxy.url,)), sweep_s=NEVER_S) as (store, watcher):
        client = await store.link.client()
        (session,) = proxy.sessions
        session.tell_client(b"-ERR 'Maximum Connections Exceeded'\r\n")

        async def is_closed() -> bool:
            return client.is_closed

        assert await until(is_closed, 10)
        await watcher.reach(await write(writer, 1))


async def test_after_a_reconnection_no_outdated_replica_is_believed(
    proxy: Proxy, writer: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_new(stream: str, logs: list[TeamLog]) -> None:
        pass

    async with watching(Endpoint((proxy.url,)), sweep_s=NEVER_S) as (store, watcher):
        monkeypatch.setattr(store._following, "_compare", nothing_new)
        proxy.answers = lose_news
        last = await write(writer, 1)
        for session in list(proxy.sessions):
            session.close()
        await watcher.reach(last)


@pytest.mark.parametrize("moments", range(5))
async def test_a_store_that_follows_can_be_closed_in_any_moment(
    proxy: Proxy, writer: NatsStore, moments: int
) -> None:
    async with watching(Endpoint((proxy.url,)), sweep_s=NEVER_S) as (store, _):
        store._following._wanted.set()
        for _ in range(moments):
            await asyncio.sleep(0)
        closing = asyncio.create_task(store._following.aclose())
        done, _ = await asyncio.wait({closing}, timeout=5)
        assert done == {closing}


def test_who_watches_on_a_server_that_is_killed_sees_what_happens_after() -> None:
    async def look(cluster: Cluster) -> None:
        writer = NatsStore(endpoint_of(cluster))
        await writer.create("alpha", config(), actor=LEAD)
        try:
            async with watching(endpoint_of(cluster), sweep_s=NEVER_S) as (store, watcher):
                at = (await store.link.client()).connected_url
                assert at is not None
                cluster.kill([node.ports.client for node in cluster.nodes].index(at.port or 0))
                last = 0
                for number in range(5):
                    last = await write_when_led(writer, number + 1)
                await watcher.reach(last, within_s=READY_S)
        finally:
            await writer.aclose()

    with servers(3) as cluster:
        asyncio.run(look(cluster))
