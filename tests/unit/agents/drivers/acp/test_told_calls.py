"""Whose tool a call is of is taken from the program's own words, never from what a model chose."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.drivers.acp.calls import calls_of, is_of_team
from bullpen.agents.drivers.acp.program_events import ToolUse
from bullpen.agents.drivers.acp.vendor_fields import named_by_id, tool_of


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"toolName": "mcp__bullpen__TaskCreate"}, ("bullpen", "TaskCreate")),
        ({"toolName": "run_shell_command"}, ("", "run_shell_command")),
        ({"tool_name": "mcp_bullpen.TaskCreate"}, ("bullpen", "TaskCreate")),
        ({"tool_name": "bash"}, ("", "bash")),
        ({"tool_name": "other.TaskCreate"}, ("", "other.TaskCreate")),
        ({}, ("", "")),
    ],
)
def test_qwen_and_vibe_name_the_tool_beside_the_call(
    meta: dict[str, Any], told: tuple[str, str]
) -> None:
    assert tool_of({"_meta": meta, "title": "mcp__bullpen__TaskCreate"}) == told


def test_an_id_that_a_model_may_have_chosen_makes_no_call_the_teams() -> None:
    call = {"toolCallId": "mcp_bullpen_TaskCreate__1", "title": "TaskCreate (bullpen MCP Server)"}
    assert tool_of(call) == ("", "")


def test_gemini_names_the_tool_in_the_id_and_tells_a_command_as_the_title() -> None:
    ours = named_by_id(ToolUse("mcp_bullpen_TaskCreate__call_1", kind="other"))
    assert is_of_team(ours, "bullpen")
    line = "cat <<'END' > made\n(nothing)\nEND"
    (call,) = calls_of(named_by_id(ToolUse("run_shell_command__call_2", line, "execute")))
    assert (call.tool, call.kind, call.input) == ("Bash", "run", {"command": line})
    (other,) = calls_of(named_by_id(ToolUse("mcp_files_remove__call_3", "ls", "execute")))
    assert (other.tool, other.kind) == ("mcp__files__remove", "run")
