"""A store behind the socket keeps the store contract, whatever store is behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.hosted.client import HostedStore
from bullpen.store.memory import MemoryStore
from bullpen.testing.store_contract import StoreContract
from support.store.hosting import hosting

pytestmark = pytest.mark.no_loss


class TestHostedMemory(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with (
            hosting(MemoryStore(limits=self.limits), limits=self.limits) as path,
            aclosing(HostedStore(path, "operator", limits=self.limits)) as store,
        ):
            yield store


class TestHostedFiles(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with (
            aclosing(FileStore(tmp_path / "home", fsync=False, limits=self.limits)) as files,
            hosting(files, limits=self.limits) as path,
            aclosing(HostedStore(path, "operator", limits=self.limits)) as store,
        ):
            yield store
