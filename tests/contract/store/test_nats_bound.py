"""The contract holds for every kind of key that writes, with real keys at real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bullpen.store.contract import Store
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.store import NatsStore
from bullpen.testing.store_contract import StoreContract
from support.store.nats_keyed import KeyedServers, keyed_servers

pytestmark = pytest.mark.no_loss


@pytest.fixture(scope="module")
def keyed() -> Iterator[KeyedServers]:
    with keyed_servers() as made:
        yield made


class _WithKey(StoreContract):
    key: str

    @pytest.fixture
    async def store(self, keyed: KeyedServers) -> AsyncIterator[Store]:
        await keyed.empty()
        creds = keyed.creds(self.key)
        store = NatsStore(Endpoint(tuple(keyed.cluster.urls), creds), limits=self.limits)
        yield store
        await store.aclose()


class TestBoundHost(_WithKey):
    key = "guest"


class TestBoundHuman(_WithKey):
    key = "bob"


class TestHost(_WithKey):
    key = "machine"


class TestHuman(_WithKey):
    key = "ann"


del _WithKey
