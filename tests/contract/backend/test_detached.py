"""The contract for agents in processes of their own, and that they outlive who started them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.contracts.backend import Backend
from bullpen.agents.system import processes
from bullpen.testing.backend_contract import Launcher, ProcessBackendContract, until


class TestDetached(ProcessBackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[Backend]:
        backend = Detached()
        yield backend
        await backend.aclose()

    async def test_an_ended_child_is_not_left_a_zombie(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("end"))
        assert one.place.pid is not None
        pid = one.place.pid
        await until(lambda: getattr(processes.look(pid), "state", "Z") == "Z", "it ends")
        assert not await backend.alive(one.place)
        assert processes.look(pid) is None

    async def test_another_process_can_watch_and_stop_it(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        other = Detached()
        assert await other.alive(one.place)
        await other.stop(one.place, one.launch.nonce, grace_s=10)
        assert not await backend.alive(one.place)
        await other.aclose()
