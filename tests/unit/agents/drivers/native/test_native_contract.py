"""The native driver keeps the promises of every driver, on each API of the vendors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from support.agents.driver_puppets import APIS, RUN_A_COMMAND, NativePuppet, leave_out
from support.agents.in_process_models import InProcessModels


class TestNative(DriverContract):
    @pytest.fixture(params=APIS.values(), ids=list(APIS))
    def puppet(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NativePuppet]:
        puppet = NativePuppet(request.param, tmp_path, InProcessModels)
        with puppet.mock:
            yield puppet


leave_out(TestNative, RUN_A_COMMAND)
