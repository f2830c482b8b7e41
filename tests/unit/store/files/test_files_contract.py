"""The file store keeps the store contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.testing.store_contract import StoreContract

pytestmark = pytest.mark.no_loss


class TestFileStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = FileStore(tmp_path, fsync=False, limits=self.limits)
        yield store
        await store.aclose()
