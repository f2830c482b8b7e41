"""The native driver runs commands as every driver does, with the API on a port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from support.agents.driver_puppets import (
    APIS,
    RUN_A_COMMAND,
    NativePuppet,
    leave_out,
    promises_of,
)


class TestNative(DriverContract):
    @pytest.fixture(params=APIS.values(), ids=list(APIS))
    def puppet(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NativePuppet]:
        puppet = NativePuppet(request.param, tmp_path)
        with puppet.mock:
            yield puppet


leave_out(TestNative, promises_of(DriverContract) - RUN_A_COMMAND)
