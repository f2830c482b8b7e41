"""The contract for agents in tmux."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bullpen.agents.backends.tmux import Tmux
from bullpen.agents.contracts.backend import Backend
from bullpen.testing.backend_contract import ProcessBackendContract


class TestTmux(ProcessBackendContract):
    own_variables = frozenset({"TERM", "TMUX", "TMUX_PANE"})

    @pytest.fixture
    async def backend(self, tmux_socket: str) -> AsyncIterator[Backend]:
        backend = Tmux(tmux_socket)
        yield backend
        await backend.aclose()
