"""Credentials for certain teams: the contract holds with requests that name their subjects.

Which of them the servers refuse is tested with real credentials elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.contract import Store
from bullpen.store.nats.client.connection import Bearer
from bullpen.testing.store_contract import StoreContract
from support.store.nats_parts import empty_store, servers

TEAMS = ("alpha", "beta", "gamma", "_5aeta")


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


class TestBoundToTeams(StoreContract):
    @pytest.fixture
    async def store(self, one: Cluster) -> AsyncIterator[Store]:
        store = await empty_store(one, self.limits, bearer=Bearer("h1", TEAMS))
        yield store
        await store.aclose()
