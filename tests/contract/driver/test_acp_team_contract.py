"""A whole team behind our own ACP driver keeps the promises of every driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from support.agents.team_puppet import TeamPuppet, imported_bullpen


@pytest.fixture(scope="module")
def bullpen() -> Iterator[Sequence[str]]:
    with imported_bullpen() as command:
        yield command


class TestTeamAsAgent(DriverContract):
    """In processes that are forked after their imports."""

    @pytest.fixture
    def puppet(self, tmp_path: Path, bullpen: Sequence[str]) -> Iterator[TeamPuppet]:
        puppet = TeamPuppet(tmp_path, bullpen)
        with puppet.mock:
            yield puppet


@pytest.mark.nightly
class TestStartedTeamAsAgent(DriverContract):
    """As an editor starts it."""

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[TeamPuppet]:
        puppet = TeamPuppet(tmp_path)
        with puppet.mock:
            yield puppet
