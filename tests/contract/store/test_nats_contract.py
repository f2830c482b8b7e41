"""The store on NATS keeps the contract, on one server and on three."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.contract import Store
from bullpen.testing.store_contract import StoreContract
from support.store.nats_parts import empty_store, servers

pytestmark = pytest.mark.no_loss


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with servers(3) as cluster:
        yield cluster


class TestOneServer(StoreContract):
    @pytest.fixture
    async def store(self, one: Cluster) -> AsyncIterator[Store]:
        store = await empty_store(one, self.limits)
        yield store
        await store.aclose()


class TestThreeServers(StoreContract):
    @pytest.fixture
    async def store(self, three: Cluster) -> AsyncIterator[Store]:
        store = await empty_store(three, self.limits)
        yield store
        await store.aclose()
