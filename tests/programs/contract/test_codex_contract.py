"""Codex over ACP keeps the promises of every driver: the real program, a model of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from programs.puppet import AcpPuppet
from programs.real_programs import IDLE_S


class TestCodex(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[AcpPuppet]:
        puppet = AcpPuppet("codex", tmp_path)
        with puppet.mock:
            yield puppet
