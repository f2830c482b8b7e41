"""Every program asks our gate, whatever the files of a repository and its user say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.gates.gate_contract import GateContract
from programs.claude_code_puppet import ClaudeCodePuppet
from programs.puppet import AcpPuppet, ProgramPuppet
from programs.real_programs import CLAUDE_CODE_VERSIONS


class _OverAcp(GateContract):
    name = ""

    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = AcpPuppet(self.name, tmp_path)
        with puppet.mock:
            yield puppet


class TestCodex(_OverAcp):
    name = "codex"


class TestClaude(_OverAcp):
    name = "claude"


class TestGoose(_OverAcp):
    name = "goose"


class TestClaudeCode(GateContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Iterator[ProgramPuppet]:
        puppet = ClaudeCodePuppet(CLAUDE_CODE_VERSIONS[-1], tmp_path)
        with puppet.mock:
            yield puppet


@pytest.mark.nightly
class TestOpencode(_OverAcp):
    name = "opencode"


@pytest.mark.nightly
class TestGemini(_OverAcp):
    name = "gemini"


@pytest.mark.nightly
class TestQwen(_OverAcp):
    name = "qwen"


@pytest.mark.nightly
class TestCopilot(_OverAcp):
    name = "copilot"
