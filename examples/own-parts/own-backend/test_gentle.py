"""The backend keeps the contract of backends that start processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from bullpen_gentle import Gentle

from bullpen.testing.backend_contract import ProcessBackendContract


class TestGentle(ProcessBackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[Gentle]:
        backend = Gentle()
        yield backend
        await backend.aclose()
