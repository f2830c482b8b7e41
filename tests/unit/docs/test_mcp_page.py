"""The reference page names every tool with its fields, every resource and every prompt."""

from __future__ import annotations

import re
from pathlib import Path

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.doors.mcp.member import ConnectedMember
from bullpen.doors.mcp.member_tools import WAIT_S_MAX
from bullpen.doors.mcp.members import HTTP_LASTS_S
from bullpen.doors.mcp.prompts import PROMPTS
from bullpen.doors.mcp.resources import PARTS, uri_of
from bullpen.protocol.names import LEAD

PAGE = (Path(__file__).parents[3] / "docs/reference/mcp.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """The tables under a heading: what stands in backticks first, and the rest of the row."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, heading
    return dict(re.findall(r"^\| `([^`]+)` \|(.*)$", found[1], re.MULTILINE))


async def test_the_page_has_every_tool_with_every_field(tmp_path: Path) -> None:
    told = rows("Tools")
    async with App(Settings(tmp_path, None, LEAD), {}) as app:
        seat = ConnectedMember(app, LEAD, team=None, cwd=str(tmp_path), tool_set="all")
        assert set(told) == {tool.name for tool in seat.tools}
        for tool in seat.tools:
            for name, field in tool.input.model_fields.items():
                assert re.search(rf"\b{field.alias or name}\b", told[tool.name]), (tool.name, name)


def test_the_page_has_every_resource_and_every_prompt() -> None:
    assert set(rows("Resources")) == {uri_of("{team}", part) for part in PARTS}
    assert set(rows("Prompts")) == {prompt.name for prompt in PROMPTS}


def test_the_page_has_the_times_that_the_code_has() -> None:
    assert f"at most {WAIT_S_MAX}" in PAGE
    assert f"no call for {HTTP_LASTS_S / 60:g} minutes" in PAGE
