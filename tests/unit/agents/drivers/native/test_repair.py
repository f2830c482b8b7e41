"""A conversation that the API refuses is cut back, then compacted, and only then is it said."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.native.conversation import FILE, replayed
from bullpen.testing.models import Fault, ModelRequest, Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

from .test_turn import every_api, looks, see, tool_that

REFUSED = Fault.refused("messages.3: this is not how we talk")


def refusing(bad: Callable[[ModelRequest], bool]) -> Callable[[ModelRequest], Reply | Fault]:
    """A model that looks once, then says what it sees; its API refuses some conversations."""

    def brain(request: ModelRequest) -> Reply | Fault:
        if bad(request):
            return REFUSED
        if "Answer only with the hand-over" in request.given:
            return Reply("I was looking around.")
        return Reply("Fog.") if request.results else looks("north", saying="I look.")

    return brain


@every_api
async def test_a_refused_conversation_is_cut_back_to_what_was_accepted(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps: list[Reply | Fault] = [
        looks("north", saying="I look."),
        REFUSED,
        Reply("Fog."),
        Reply("Yes."),
    ]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native, "First turn.") == "Fog."
            assert await workplace.turn(native, "Second turn.") == "Yes."
    cut = mock.requests[2]
    assert "First turn." in cut.text and "your last answer was removed" in cut.text
    assert cut.results == () and "I look." not in cut.text
    assert "refused the conversation" in workplace.recorded("trouble")[0]["text"]


@every_api
async def test_a_conversation_that_is_refused_again_is_compacted(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    brain = refusing(lambda request: "First turn." in request.text and "Second" in request.text)
    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native, "First turn.") == "Fog."
            assert await workplace.turn(native, "Second turn.") == "Fog."
            assert await workplace.turn(native, "Third turn.") == "Fog."
    assert any("Compacted" in note["text"] for note in workplace.recorded("note"))


@every_api
async def test_what_no_repair_helps_is_told_and_the_conversation_stays(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    refuses = [False]
    with InProcessModels(refusing(lambda request: refuses[0])) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native, "First turn.") == "Fog."
            stored = replayed((workplace.desk.folder / FILE).read_bytes())["messages"]
            refuses[0] = True
            with pytest.raises(TurnFailed, match="not how we talk") as caught:
                await workplace.turn(native, "Second turn.")
            assert caught.value.failure == "rejected" and not caught.value.for_good
            assert "also after the conversation was cut back" in caught.value.message
            assert replayed((workplace.desk.folder / FILE).read_bytes())["messages"] == stored
            refuses[0] = False
            assert await workplace.turn(native, "Third turn.") == "Fog."
    assert "First turn." in mock.requests[-1].text


@pytest.mark.parametrize("later", [Fault.unauthorized(), Fault.too_long()], ids=["401", "400"])
async def test_a_repair_that_was_not_proved_to_help_is_taken_back(
    workplace: Workplace, later: Fault
) -> None:
    steps: list[Reply | Fault] = [looks("north"), REFUSED, *[later] * 9]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed):
                await workplace.turn(native, "First turn.")
            steps[:] = [Reply("Fog.")]
            assert await workplace.turn(native, "Second turn.") == "Fog."
    assert [result.text for result in mock.requests[-1].results] == ["fog in the north"]


@every_api
async def test_a_bad_conversation_that_an_older_version_stored_is_repaired(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps: list[Reply | Fault] = [
        looks("north", "south", saying="I look."),
        Fault.unauthorized(),
        Reply("Fog."),
    ]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed):
                await workplace.turn(native, "First turn.")
        path = workplace.desk.folder / FILE
        stored = replayed(path.read_bytes())
        for message in stored["messages"]:
            for part in message["parts"]:
                if "tool_call_id" in part:
                    part |= {"tool_call_id": "same", "tool_name": "Look around!"}
                if part["part_kind"] == "text":
                    part["content"] = "\n"
        path.write_text(json.dumps(stored))
        async with workplace.driver(mock, tools=tool_that(see)) as again:
            assert await workplace.turn(again, "Second turn.") == "Fog."
    assert [result.text for result in mock.requests[-1].results] == [
        "fog in the north",
        "fog in the south",
    ]
