"""The model behind the programs: what it counts, and how it calls tools in their words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bullpen.testing.models import Call, Fault, ModelRequest, Reply, Result, Turn
from programs.brain import ProgramBrain

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}}
BASH: dict[str, Any] = {"Bash": COMMAND}


def request(*turns: Turn | str, tools: dict[str, Any] = BASH, **body: Any) -> ModelRequest:
    said = tuple(Turn("user", turn) if isinstance(turn, str) else turn for turn in turns)
    return ModelRequest("chat", "model", "", said, tools, True, body, {}, 0.0)


def called(answer: Reply | Fault) -> Call:
    assert isinstance(answer, Reply)
    (call,) = answer.calls
    return call


def test_what_is_asked_beside_the_work_is_answered_and_not_counted() -> None:
    brain = ProgramBrain(aside={"small"})
    brain.say("Done.")
    wanted = {"type": "object", "properties": {"title": {"type": "string"}}}
    asked = {"response_format": {"json_schema": {"schema": wanted}}}
    title = brain(request("A title, please.", tools={}, **asked))
    assert isinstance(title, Reply)
    assert set(json.loads(title.text)) == {"title"}
    assert brain(request("Work.")) == Reply("Done.", calls=[])
    assert brain.requests() == ["Work."]


def test_a_repetition_after_an_error_is_not_counted_but_a_new_turn_is() -> None:
    brain = ProgramBrain(tries=3)
    brain.fail("no credit")
    brain.say("Done.")
    answers = [brain(request("Work.")) for _ in range(4)]
    assert [isinstance(answer, Fault) for answer in answers] == [True, True, True, False]
    assert brain.requests() == ["Work.", "Work."]


def test_a_request_that_no_step_is_for_is_an_error_of_the_test() -> None:
    with pytest.raises(AssertionError, match="foresaw no answer to: Work"):
        ProgramBrain()(request("Work."))


@pytest.mark.parametrize(
    ("tools", "name", "given"),
    [
        ({"Bash": COMMAND}, "Bash", {"command": "ls"}),
        ({"shell": COMMAND}, "shell", {"command": "ls"}),
        (
            {"shell": {"properties": {"command": {"type": "array"}}}},
            "shell",
            {"command": ["bash", "-lc", "ls"]},
        ),
        (
            {"exec_command": {"properties": {"cmd": {}, "sandbox_permissions": {}}}},
            "exec_command",
            {"cmd": "ls", "sandbox_permissions": "require_escalated", "justification": "May I?"},
        ),
    ],
)
def test_a_command_is_run_by_whatever_the_program_runs_commands_with(
    tools: dict[str, Any], name: str, given: dict[str, Any]
) -> None:
    brain = ProgramBrain()
    brain.use_tool("Bash", {"command": "ls"}, saying="I look.")
    answer = brain(request("Work.", tools=tools))
    assert isinstance(answer, Reply) and answer.text == "I look."
    assert (called(answer).name, called(answer).input) == (name, given)


@pytest.mark.parametrize(
    "name",
    [
        "mcp__bullpen__TaskCreate",
        "bullpen__TaskCreate",
        "bullpen_TaskCreate",
        "mcp_bullpen_TaskCreate",
    ],
)
def test_a_tool_of_the_team_is_called_by_the_name_that_the_program_gives_it(name: str) -> None:
    brain = ProgramBrain()
    brain.use_tool("TaskCreate", {"subject": "Paint"})
    answer = brain(request("Work.", tools={"TaskCreate": {}, name: {}}))
    assert (called(answer).name, called(answer).input) == (name, {"subject": "Paint"})


def test_a_tool_of_the_programs_own_is_called_where_that_is_wanted() -> None:
    brain = ProgramBrain(own={"TaskCreate"})
    for _ in range(2):
        brain.use_tool("TaskCreate", {"subject": "Paint"})
    both: dict[str, Any] = {"TaskCreate": {}, "mcp__bullpen__TaskCreate": {}}
    assert called(brain(request("Work.", tools=both))).name == "TaskCreate"
    only: dict[str, Any] = {"mcp__bullpen__TaskCreate": {}}
    assert called(brain(request("Work.", tools=only))).name == "mcp__bullpen__TaskCreate"


def test_a_search_for_a_tool_is_no_step_and_mail_in_it_is_not_lost() -> None:
    brain = ProgramBrain()
    brain.use_tool("TaskCreate", {"subject": "Paint"})
    tools: dict[str, Any] = {"tool_search": QUERY, "tool_call": {}}
    search = called(brain(request("Work.", tools=tools)))
    assert (search.name, search.input) == ("tool_search", {"query": "TaskCreate"})
    found = Turn("user", "Mail!", results=(Result(search.id, '"mcp__bullpen__TaskCreate": ...'),))
    made = called(brain(request("Work.", Turn("assistant", calls=(search,)), found, tools=tools)))
    assert made.name == "tool_call"
    assert made.input == {"name": "mcp__bullpen__TaskCreate", "arguments": {"subject": "Paint"}}
    (given,) = brain.requests()
    assert "Work." in given and "Mail!" in given
