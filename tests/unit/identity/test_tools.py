"""Every tool, called by everybody: agents at their runner's socket, programs over MCP."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.tools.toolbox import TOOLS
from bullpen.doors.mcp.member_tools import tools_of
from support.identity.cast import ACTORS
from support.identity.rows import Seen, table
from support.identity.tools import CALLS, ELSEWHERE, McpHome, at_tool_socket, rows


def test_every_tool_has_rows() -> None:
    named = {*(what.split(":")[0] for what in CALLS), *ELSEWHERE}
    of_runners = {tool.name for tool in TOOLS if tool.kind == "team"}
    of_mcp = {tool.name for tool in tools_of(None, "all", leads=True)}  # type: ignore[arg-type]
    assert named == of_runners | of_mcp


async def test_an_agent_calls_tools_only_in_its_own_name(tmp_path: Path) -> None:
    _judge([await at_tool_socket(row, tmp_path) for row in rows("tool socket")])


async def test_a_connected_program_calls_tools_only_in_its_own_name(tmp_path: Path) -> None:
    home = McpHome(tmp_path)
    _judge([await home.perform(row) for row in (*rows("MCP stdio"), *rows("MCP HTTP"))])


def _judge(seen: list[Seen]) -> None:
    print(table(seen))
    wrong = [each for each in seen if not each.fits(ACTORS[each.row.identity].name)]
    assert not wrong, f"\n{table(wrong)}"
