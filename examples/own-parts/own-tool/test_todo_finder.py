"""The tool keeps the contract of tools, and finds what it looks for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from bullpen_todo_finder import FIND_TODOS

from bullpen.agents.contracts import Desk, Tool
from bullpen.agents.tools.toolbox import call
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.gates.tool_contract import ToolContract


class TestFindTodos(ToolContract):
    good: ClassVar = {"path": "shop.py"}
    bad: ClassVar = {"path": "missing.py"}

    def prepare(self, project: Path) -> None:
        (project / "shop.py").write_text("# TODO: sell\nprint()\n", encoding="utf-8")

    @pytest.fixture
    def tool(self) -> Tool[Desk]:
        return FIND_TODOS

    async def test_it_finds_a_todo(self, desk: RecordingDesk) -> None:
        assert await call([FIND_TODOS], "FindTodos", self.good, desk) == ("1: # TODO: sell", False)
