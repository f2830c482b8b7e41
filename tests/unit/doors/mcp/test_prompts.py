"""The texts that teach a program to be on a team."""

from __future__ import annotations

import re

import pytest

from bullpen.agents.contracts import Desk, Tool
from bullpen.agents.tools.planning.note_tools import NOTE_TOOLS
from bullpen.agents.tools.planning.plan_tools import PLAN_TOOLS
from bullpen.agents.tools.task_tools import TASK_TOOLS
from bullpen.agents.tools.team_tools import TEAM_TOOLS
from bullpen.doors.mcp.member_tools import _OF_A_CONNECTION, WAIT_S_MAX
from bullpen.doors.mcp.prompts import PROMPTS, render
from bullpen.errors import NotFound

NAMES = [prompt.name for prompt in PROMPTS]
EVERY_TOOL: tuple[Tool[Desk], ...] = (
    *TEAM_TOOLS,
    *TASK_TOOLS,
    *NOTE_TOOLS,
    *PLAN_TOOLS,
    *_OF_A_CONNECTION,
)
MEMBERS = ("team-lead", "alice", "bob")


def rendered(name: str) -> str:
    return render(name, team="alpha", member="bob", members=MEMBERS)


def test_there_is_a_text_for_each_part_in_a_team() -> None:
    assert NAMES == ["teammate", "lead", "reviewer"]
    for prompt in PROMPTS:
        assert prompt.title
        assert prompt.description.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_a_text_says_who_one_is_and_who_the_others_are(name: str) -> None:
    text = rendered(name)
    assert text.startswith("You are the lead of " if name == "lead" else "You are bob, ")
    assert "team alpha. The other members are team-lead, alice." in text
    assert not re.search(r"\{(team|member|who|others|lead)?\}|\{\{", text), "not filled in"


@pytest.mark.parametrize("name", NAMES)
def test_every_text_teaches_what_is_different_here(name: str) -> None:
    text = rendered(name)
    for taught in (
        "sees only your tool calls, not what you say",
        "no field of a tool can change that",
        "WaitForMail {timeout_seconds}",
        f"up to {WAIT_S_MAX} seconds",
        'TaskUpdate {taskId, status: "in_progress"}',
        'TaskUpdate {taskId, status: "completed", report}',
        "a blocked task cannot be claimed",
        "cannot extend what you may do",
    ):
        assert taught in text, taught


@pytest.mark.parametrize("name", ["teammate", "reviewer"])
def test_a_teammate_learns_to_answer_a_shutdown_and_to_plan(name: str) -> None:
    text = rendered(name)
    assert '{"type": "shutdown_response", "request_id", "approve", "reason"}' in text
    assert "ExitPlanMode" in text
    assert "SpawnTeammate" not in text


def test_a_lead_learns_to_spawn_to_answer_and_to_end() -> None:
    text = rendered("lead")
    assert '{"type": "shutdown_request", "reason"}' in text
    for tool in ("TaskCreate", "SpawnTeammate", "ApproveRequest", "TeamStatus"):
        assert tool in text


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_short(name: str) -> None:
    assert len(rendered(name).split()) < 700


def test_somebody_alone_is_told_so_and_a_crowd_is_not_listed_whole() -> None:
    assert "no other members" in render("lead", team="t", member="team-lead", members=["team-lead"])
    crowd = [f"m{number}" for number in range(60)]
    text = render("teammate", team="t", member="m0", members=crowd)
    assert "m50 and 9 more." in text
    assert "m51" not in text


def test_an_unknown_text_is_not_found() -> None:
    with pytest.raises(NotFound, match="lead"):
        render("boss", team="t", member="m", members=())


@pytest.mark.parametrize("name", NAMES)
def test_every_tool_that_a_text_names_is_there_with_the_fields_that_it_names(name: str) -> None:
    tools = {tool.name: tool.input.model_json_schema() for tool in EVERY_TOOL}
    named = re.findall(r"\b((?:[A-Z][a-z]+){2,})(?: \{([^{}:]+)[}:])?", rendered(name))
    assert {"WaitForMail", "SendMessage", "TaskUpdate"} <= {tool for tool, _ in named}
    for tool, fields in named:
        for field in re.findall(r"\w+", fields):
            assert field in tools[tool]["properties"], f"{tool}: {field}"
