"""More programs over ACP that keep the promises of every driver: BULLPEN_NIGHTLY=1 runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from puppet import AcpPuppet, ProgramPuppet

from bullpen.testing.driver_contract import DriverContract
from programs import program

pytestmark = pytest.mark.nightly


class TestOpencode(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("opencode", tmp_path)
        with puppet.mock:
            yield puppet


class TestGemini(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("gemini", tmp_path)
        with puppet.mock:
            yield puppet


class TestQwen(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("qwen", tmp_path)
        with puppet.mock:
            yield puppet


class TestVibe(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("vibe", tmp_path)
        with puppet.mock:
            yield puppet


class TestAnyCommand(DriverContract):
    """A program of which nothing is known but its command: here it is OpenCode's."""

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        command = list(program("opencode").argv)
        puppet = ProgramPuppet(
            "opencode", tmp_path, driver_name="acp", options={"command": command}
        )
        with puppet.mock:
            yield puppet
