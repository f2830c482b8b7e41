"""Which tools an agent has, and what calling one looks like from outside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.desk import Desk, Wanted
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.tools.toolbox import TOOLS, call, toolbox, without_spares
from bullpen.errors import Invalid
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench, MakeBench

LOOKING = {"Read", "Glob", "Grep", "BashOutput", "KillShell", "Skill", "WebFetch"}
TALKING = {
    *("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "NotesRead", "NotesWrite"),
    "Promise",
    *("SendMessage", "TeamStatus", "ScheduleWakeup", "TodoWrite", "AskUserQuestion", "ToolSearch"),
}
WORKING = {"Write", "Edit", "MultiEdit", "apply_patch", "NotebookEdit", "Bash", "EnterPlanMode"}
SPAWNING = {"SpawnTeammate", "Task", "StopTeammate"}
LEADING = {"Finish", "SetMode", "TeamCreate", "TeamDelete"}


class Office:
    """Colleagues that are never asked."""

    def __init__(self, *, members: bool = True) -> None:
        self.members = members

    async def spawn(self, wanted: Wanted) -> str:
        raise NotImplementedError

    async def stop(self, name: str, *, reason: str | None) -> str:
        raise NotImplementedError


def names(bench: Bench) -> set[str]:
    return {tool.name for tool in toolbox(bench.desk)}


async def test_a_teammate_works_and_talks_but_does_not_lead(make_bench: MakeBench) -> None:
    assert names(make_bench("ann")) == LOOKING | TALKING | WORKING
    spawner = names(make_bench("ann", colleagues=Office()))
    assert spawner - (LOOKING | TALKING | WORKING) == SPAWNING


async def test_the_lead_has_every_tool(make_bench: MakeBench) -> None:
    assert names(make_bench(LEAD, colleagues=Office())) == {tool.name for tool in TOOLS} - {
        *("ExitPlanMode", "WebSearch"),
    }
    assert not SPAWNING & names(make_bench(LEAD))


async def test_one_tool_with_two_names_is_shown_once_and_given_and_taken_as_one(
    make_bench: MakeBench,
) -> None:
    lead = toolbox(make_bench(LEAD, colleagues=Office()).desk)
    seen = {tool.name for tool in without_spares(lead)}
    assert {tool.name for tool in lead} - seen == {"SpawnTeammate", "TeamCreate", "TeamDelete"}
    assert without_spares(toolbox(make_bench("ann").desk)) == toolbox(make_bench("ann").desk)
    both = {"SpawnTeammate", "Task"}
    for name in both:
        assert names(make_bench(LEAD, colleagues=Office(), tools=[name])) == both
        assert not both & names(make_bench(LEAD, colleagues=Office(), disallowed_tools=[name]))


async def test_a_native_teammate_that_may_not_spawn_has_task_for_subagents_and_does_not_pay_for_it(
    make_bench: MakeBench,
) -> None:
    ann = make_bench("ann", colleagues=Office(members=False), driver="native")
    tools = toolbox(ann.desk)
    assert {"SpawnTeammate", "StopTeammate", "Task"} & {tool.name for tool in tools} == {"Task"}
    assert "Task" not in {tool.name for tool in without_spares(tools)}
    text = await ann.refused("Task", name="zoe", prompt="Go")
    assert "'ann' may not start or stop teammates" in text
    assert "Task" not in names(make_bench("ann", colleagues=Office(members=False), driver="acp"))
    planning = make_bench("ann", colleagues=Office(members=False), driver="native", mode="plan")
    assert "Task" not in names(planning)


async def test_the_schema_of_the_tool_that_starts_agents_is_paid_once(
    make_bench: MakeBench,
) -> None:
    lead = toolbox(make_bench(LEAD, colleagues=Office()).desk)
    starting = [tool for tool in without_spares(lead) if tool.name in ("SpawnTeammate", "Task")]
    paid = sum(len(json.dumps(tool.input.model_json_schema())) for tool in starting)
    # Characters; about a quarter of that in tokens.
    assert paid < 2_600


async def test_a_lead_that_delegates_cannot_work_itself(make_bench: MakeBench) -> None:
    """R-12.1"""
    lead = make_bench(LEAD, colleagues=Office(), mode="delegate")
    assert names(lead) == TALKING | SPAWNING | LEADING
    text = await lead.refused("Bash", command="touch x")
    assert "do not have the tool 'Bash'" in text
    assert not (lead.cwd / "x").exists()


async def test_who_plans_can_read_and_talk_only(make_bench: MakeBench) -> None:
    assert names(make_bench("ann", mode="plan")) == LOOKING | TALKING | {"ExitPlanMode"}
    spawner = names(make_bench("ann", mode="plan", colleagues=Office()))
    assert not {"SpawnTeammate", "Task"} & spawner, "others would do for it what it may not"
    assert names(make_bench("ann", mode="acceptEdits")) == LOOKING | TALKING | WORKING


async def test_tools_are_allowed_and_taken_away_by_name(make_bench: MakeBench) -> None:
    assert names(make_bench("ann", tools=["Read", "Bash"])) == {"Read", "Bash"}
    assert names(make_bench("ann", tools=[])) == set()
    assert names(make_bench("ann", disallowed_tools=["Bash"])) == (
        (LOOKING | TALKING | WORKING) - {"Bash"}
    )
    assert names(make_bench("ann", mode="plan", tools=["Read", "Bash"])) == {"Read"}
    assert names(make_bench("ann", tools=["Finish", "Read"])) == {"Read"}


async def test_unknown_names_of_tools_are_refused_with_those_there_are(
    make_bench: MakeBench,
) -> None:
    check_tools(["Read", "Finish"])
    with pytest.raises(Invalid, match=r"'Raed'.*Read, Write"):
        check_tools(["Read", "Raed"])
    with pytest.raises(Invalid):
        toolbox(make_bench("ann", disallowed_tools=["Raed"]).desk)


async def test_a_listed_tool_that_does_not_exist_is_left_out(make_bench: MakeBench) -> None:
    assert names(make_bench("ann", tools=["Read", "Raed"])) == {"Read"}


async def test_an_unknown_tool_is_an_error_with_the_nearest_one(ann: Bench) -> None:
    text = await ann.refused("read", file_path="x")
    assert "There is no tool 'read'" in text
    assert "Did you mean Read?" in text


async def test_bad_input_is_an_error_that_says_what_would_be_right(ann: Bench) -> None:
    text = await ann.refused("Read", path="x", limit="many")
    assert "file_path: Field required" in text
    assert "path: Extra inputs are not permitted" in text
    assert "{file_path, offset?, limit?, pages?}" in text
    assert "-i?" in await ann.refused("Grep")
    wrong: tuple[Any, ...] = (None, [], "x")
    for raw in wrong:
        _, failed = await call(toolbox(ann.desk), "Read", raw, ann.desk)
        assert failed


async def test_a_fault_of_a_tool_is_an_error_and_no_end_of_the_agent(ann: Bench) -> None:
    async def broken(given: Any, desk: Desk) -> str:
        raise ZeroDivisionError("oops")

    tool = Tool("Broken", "It breaks.", ToolInput, "read", broken)
    text, failed = await call([tool], "Broken", {}, ann.desk)
    assert failed
    assert "oops" in text
    assert ann.desk.did[-1] == (None, "")


def test_every_schema_is_an_object_with_described_fields() -> None:
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    for tool in TOOLS:
        schema = tool.input.model_json_schema()
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        for name, field in schema.get("properties", {}).items():
            assert "description" in field, f"{tool.name}.{name}"
        assert "Input of" not in tool.description


def test_models_find_the_fields_they_know() -> None:
    fields = {
        tool.name: set(tool.input.model_json_schema()["properties"])
        for tool in TOOLS
        if tool.input.model_fields
    }
    assert fields["Read"] == {"file_path", "offset", "limit", "pages"}
    assert fields["WebFetch"] == {"url", "prompt"}
    assert fields["WebSearch"] == {"query", "allowed_domains", "blocked_domains"}
    assert fields["Write"] == {"file_path", "content"}
    assert fields["Edit"] == {"file_path", "old_string", "new_string", "replace_all"}
    assert fields["Bash"] == {"command", "timeout", "description", "run_in_background"}
    assert {"pattern", "path", "glob", "output_mode", "-i", "-n", "-A", "-B", "-C"} <= fields[
        "Grep"
    ]
    assert fields["TaskGet"] == {"taskId"}
    assert {"subject", "description", "activeForm", "metadata"} <= fields["TaskCreate"]
    assert {"to", "summary", "message", "type", "recipient", "content"} <= fields["SendMessage"]
