"""More programs over ACP that keep the promises of every driver: BULLPEN_NIGHTLY=1 runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.driver_contract import DriverContract
from programs.puppet import AcpPuppet, ProgramPuppet
from programs.real_programs import IDLE_S, program

pytestmark = pytest.mark.nightly


class TestOpencode(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("opencode", tmp_path)
        with puppet.mock:
            yield puppet


class TestGemini(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("gemini", tmp_path)
        with puppet.mock:
            yield puppet


class TestQwen(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("qwen", tmp_path)
        with puppet.mock:
            yield puppet


class TestCopilot(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("copilot", tmp_path)
        with puppet.mock:
            yield puppet


class TestVibe(DriverContract):
    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet("vibe", tmp_path)
        with puppet.mock:
            yield puppet


class TestAnyCommand(DriverContract):
    """A program of which nothing is known but its command: here it is OpenCode's."""

    idle_s = IDLE_S

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        command = list(program("opencode").argv)
        puppet = ProgramPuppet(
            "opencode", tmp_path, driver_name="acp", options={"command": command}
        )
        with puppet.mock:
            yield puppet
