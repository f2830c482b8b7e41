"""What every tool of a package promises: one test for each promise. Subclass it to check a tool.

class TestLookup(ToolContract):
    good = {"word": "lease"}
    bad = {"word": "no such word"}

    @pytest.fixture
    def tool(self) -> Tool[Desk]:
        return LOOKUP
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.permissions.rule_language.package_names import NOT_FOR_PACKAGES
from bullpen.agents.tools.toolbox import call
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class ToolContract:
    """Every promise of a tool that a package provides. A subclass has a fixture `tool`.

    `good` is an input that works in the project that `prepare` makes. `bad` is one that is
    well-formed and fails, such as a file that is not there; None if no input can fail.
    """

    good: ClassVar[Mapping[str, Any]]
    bad: ClassVar[Mapping[str, Any] | None] = None

    def prepare(self, project: Path) -> None:
        """Put into the project what the inputs name."""

    @pytest.fixture
    def tool(self) -> Tool[Desk]:
        """Return the tool to check."""
        raise NotImplementedError

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """Return the directory that the agent works in."""
        made = tmp_path / "project"
        made.mkdir()
        self.prepare(made)
        return made

    @pytest.fixture
    async def desk(self, project: Path, tmp_path: Path, tool: Tool[Desk]) -> RecordingDesk:
        """Return the desk of an agent that was given the tool."""
        teams = Teams(MemoryStore())
        await teams.create("alpha", by=LEAD)
        spec = AgentSpec.new(
            driver="native", backend="in-process", cwd=str(project), tools=[tool.name]
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        return RecordingDesk(teams.open("alpha"), LEAD, tmp_path, spec, env)

    def test_a_model_can_be_told_of_it(self, tool: Tool[Desk]) -> None:
        assert _NAME.fullmatch(tool.name), "an API takes letters, digits, _ and -"
        assert tool.name.casefold() not in {name.casefold() for name in NOT_FOR_PACKAGES}
        assert not tool.name.startswith("mcp__")
        assert tool.description.strip()
        schema = tool.input.model_json_schema()
        assert schema["type"] == "object"
        assert json.loads(json.dumps(schema)) == schema

    def test_it_declares_what_it_can_change(self, tool: Tool[Desk]) -> None:
        assert tool.kind in ("read", "write", "run")
        assert not tool.asks_itself, "only Bullpen's own tools ask the gate themselves"

    async def test_a_permitted_call_tells_the_model_something(
        self, tool: Tool[Desk], desk: RecordingDesk
    ) -> None:
        text, failed = await call([tool], tool.name, dict(self.good), desk)
        assert not failed, text
        assert text.strip()

    async def test_the_gate_is_asked_with_its_kind_and_its_exact_input(
        self, tool: Tool[Desk], desk: RecordingDesk
    ) -> None:
        await call([tool], tool.name, dict(self.good), desk)
        asked = [(each.tool, each.kind, dict(each.input)) for each in desk.wanted]
        assert asked == [(tool.name, tool.kind, dict(self.good))]

    async def test_a_denied_call_does_nothing(
        self, tool: Tool[Desk], desk: RecordingDesk, project: Path
    ) -> None:
        def deny(call: Call) -> Mapping[str, Any]:
            raise Refused("No.", reason="denied")

        desk.rule = deny
        before = _contents(project)
        text, failed = await call([tool], tool.name, dict(self.good), desk)
        assert failed
        assert text.startswith("No.")
        assert _contents(project) == before

    async def test_a_tool_that_reads_changes_no_file(
        self, tool: Tool[Desk], desk: RecordingDesk, project: Path
    ) -> None:
        if tool.kind != "read":
            pytest.skip("it may change something")
        before = _contents(project)
        await call([tool], tool.name, dict(self.good), desk)
        assert _contents(project) == before

    async def test_an_unknown_field_is_refused_before_anybody_is_asked(
        self, tool: Tool[Desk], desk: RecordingDesk
    ) -> None:
        text, failed = await call([tool], tool.name, {**self.good, "no_such_field": 1}, desk)
        assert failed
        assert "no_such_field" in text
        assert desk.wanted == []

    async def test_a_failure_is_explained_to_the_model(
        self, tool: Tool[Desk], desk: RecordingDesk
    ) -> None:
        if self.bad is None:
            pytest.skip("no input makes it fail")
        text, failed = await call([tool], tool.name, dict(self.bad), desk)
        assert failed
        assert text.strip()
        assert "crashed, because of a bug" not in text, "raise a BullpenError instead"


def _contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, with its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
