"""The real Claude Code keeps the promises of every driver, in each version that is pinned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from programs.claude_code_puppet import ClaudeCodePuppet
from programs.real_programs import CLAUDE_CODE_VERSIONS, IDLE_S


class TestClaudeCode(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture(params=CLAUDE_CODE_VERSIONS)
    def puppet(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClaudeCodePuppet]:
        puppet = ClaudeCodePuppet(request.param, tmp_path)
        with puppet.mock:
            yield puppet
