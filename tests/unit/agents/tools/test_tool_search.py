"""Tools that a model loads when it needs them, and what the others cost in the first request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.tool_search import (
    LOADED_MAX,
    TOOL_SEARCH,
    ToolSearchInput,
    ToolShelf,
    matching,
    overview,
)
from bullpen.agents.tools.toolbox import searchable, toolbox
from bullpen.errors import Refused
from bullpen.testing.models import Call, Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_fixtures import spec, workplace

if TYPE_CHECKING:
    from support.agents.native_workplace import Workplace
    from support.agents.tools_fixtures import MakeBench

__all__ = ["spec", "workplace"]


class IssueInput(ToolInput):
    """Input of the tools here."""

    title: str = Field(description="What it is about")


async def done(given: IssueInput, desk: Desk) -> str:
    return f"done: {given.title}"


def rare(name: str, about: str = "Do something.", group: str | None = None) -> Tool[Desk]:
    return Tool(name, about, IssueInput, "read", done, deferred=True, group=group)


PAINT = rare("PaintWall", "Cover a wall with colour.")
BRUSH = rare("BrushTeeth", "Clean them. Not for a wall.")
SERVER = [rare(f"mcp__hub__make_thing_{n}", group="mcp__hub") for n in range(500)]
ALWAYS: Tool[Desk] = Tool("Always", "Always there.", IssueInput, "read", done)
ALL = [ALWAYS, PAINT, BRUSH, TOOL_SEARCH]


async def search(shelf: ToolShelf, tools: list[Tool[Desk]], query: str) -> str:
    found = next(tool for tool in shelf.callable(tools) if tool.name == "ToolSearch")
    return await found.run(ToolSearchInput(query=query), cast("Desk", None))


def names(tools: list[Tool[Desk]]) -> list[str]:
    return [tool.name for tool in tools]


async def test_loaded_tools_are_shown_at_the_end_in_the_order_of_loading() -> None:
    loaded: list[str] = []
    shelf = ToolShelf(loaded)
    assert names(shelf.shown(ALL)) == ["Always", "ToolSearch"]
    before = [(tool.name, tool.description) for tool in shelf.shown(ALL)]
    assert "BrushTeeth: Clean them." in await search(shelf, ALL, "teeth")
    assert "PaintWall" in await search(shelf, ALL, "PaintWall")
    shown = shelf.shown(ALL)
    assert names(shown) == ["Always", "ToolSearch", "BrushTeeth", "PaintWall"]
    assert [(tool.name, tool.description) for tool in shown[:2]] == before
    await search(shelf, ALL, "teeth")
    assert loaded == ["BrushTeeth", "PaintWall"], "what is loaded is not loaded again"
    assert names(ToolShelf(loaded).shown(ALL)) == names(shown), "as after a restart"


async def test_names_are_found_exactly_and_words_by_how_well_they_fit() -> None:
    assert matching("select:brushteeth,PaintWall", ALL) == [PAINT, BRUSH]
    assert matching("paint the wall", ALL) == [PAINT, BRUSH]
    assert matching("zebra", ALL) == []
    with pytest.raises(Refused, match="PaintWall, BrushTeeth"):
        await search(ToolShelf([]), ALL, "zebra")


async def test_one_search_loads_few_tools_and_names_the_others() -> None:
    loaded: list[str] = []
    text = await search(ToolShelf(loaded), [*SERVER, TOOL_SEARCH], "make thing")
    assert len(loaded) == LOADED_MAX
    assert "mcp__hub__make_thing_5," in text and "475 more" in text


def test_the_overview_is_short_however_many_tools_and_servers_there_are() -> None:
    assert overview(ALL) == "PaintWall, BrushTeeth"
    assert overview(SERVER).startswith("mcp__hub (500: make_thing_0, make_thing_1")
    many = [
        rare(f"mcp__s{n}__t{m}{'x' * 40}", group=f"mcp__s{n}") for n in range(99) for m in range(9)
    ]
    assert len(overview(many)) < 4_000
    assert overview(many).endswith("79 more servers")


async def test_only_who_has_something_to_find_has_the_search(make_bench: MakeBench) -> None:
    plain = [tool for tool in toolbox(make_bench("ann").desk) if not tool.deferred]
    assert "ToolSearch" not in names(searchable([*plain, TOOL_SEARCH]))
    assert "ToolSearch" in names(searchable([*plain, TOOL_SEARCH, PAINT]))


def with_tools(*extra: Tool[Desk]) -> Callable[[Desk], list[Tool[Desk]]]:
    return lambda desk: [
        *(tool for tool in toolbox(desk) if tool is not TOOL_SEARCH),
        TOOL_SEARCH,
        *extra,
    ]


def listed(body: Any) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


async def test_five_hundred_tools_cost_few_tokens_in_the_first_request(
    workplace: Workplace,
) -> None:
    sizes: dict[str, int] = {}
    for what, tools in {"none": toolbox, "many": with_tools(*SERVER)}.items():
        with InProcessModels(lambda request: Reply("Done.")) as mock:
            async with workplace.driver(mock, tools=tools) as native:
                await workplace.turn(native)
        sizes[what] = len(json.dumps(mock.requests[0].body["tools"]))
    # Three characters for a token are few: four are usual.
    assert (sizes["many"] - sizes["none"]) / 3 < 300


async def test_a_model_loads_a_tool_and_calls_it_also_after_a_restart(
    workplace: Workplace,
) -> None:
    steps = [
        Reply("", [Call("ToolSearch", {"query": "wall"})]),
        Reply("", [Call("PaintWall", {"title": "red"})]),
        Reply("Done."),
        # Not loaded: it is called by its name.
        Reply("", [Call("mcp__hub__make_thing_3", {"wrong": 1})]),
        Reply("Done."),
    ]
    tools = with_tools(PAINT, *SERVER)
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            await workplace.turn(native)
        async with workplace.driver(mock, tools=tools) as native:
            await workplace.turn(native)
    bodies = [request.body for request in mock.requests]
    assert "PaintWall" not in listed(bodies[0])
    assert listed(bodies[1]) == [*listed(bodies[0]), "PaintWall"]
    for later in bodies[2:]:
        assert json.dumps(later["tools"]) == json.dumps(bodies[1]["tools"])
    assert [result.text for result in mock.requests[2].results][-1] == "done: red"
    assert "{title}" in mock.requests[4].results[-1].text, "the error names the fields"
