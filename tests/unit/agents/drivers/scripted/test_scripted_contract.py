"""The scripted driver keeps the driver contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract, Puppet
from support.agents.driver_puppets import RUN_A_COMMAND, ScriptPuppet, leave_out


class TestScripted(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Puppet:
        return ScriptPuppet(tmp_path)


leave_out(TestScripted, RUN_A_COMMAND)
