"""The real Claude Code keeps the promises of every driver, in each version that is pinned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_code_puppet import ClaudeCodePuppet

from bullpen.testing.driver_contract import DriverContract
from programs import CLAUDE_CODE_VERSIONS


class TestClaudeCode(DriverContract):
    @pytest.fixture(params=CLAUDE_CODE_VERSIONS)
    def puppet(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClaudeCodePuppet]:
        puppet = ClaudeCodePuppet(request.param, tmp_path)
        with puppet.mock:
            yield puppet
