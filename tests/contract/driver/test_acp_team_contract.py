"""A whole team behind our own ACP driver keeps the promises of every driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from support.agents.team_puppet import TeamPuppet


class TestTeamAsAgent(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[TeamPuppet]:
        puppet = TeamPuppet(tmp_path)
        with puppet.mock:
            yield puppet
