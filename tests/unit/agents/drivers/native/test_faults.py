"""An API that refuses, breaks or overflows: what is tried again, what is told, what is kept."""

from __future__ import annotations

import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.native import limiter
from bullpen.agents.drivers.native import model as model_module
from bullpen.testing.models import Call, Fault, Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

from .test_turn import at_once, every_api, looks, see, tool_that


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Penalties of milliseconds."""
    monkeypatch.setattr(limiter, "DELAY_FIRST_S", 0.02)
    monkeypatch.setattr(limiter, "DELAY_OVERLOAD_S", 0.03)
    monkeypatch.setattr(limiter, "DELAY_MAX_S", 0.1)


@pytest.mark.usefixtures("quick")
@every_api
@pytest.mark.parametrize(
    "fault",
    [Fault.rate_limited(), Fault.rate_limited(0.05), Fault.overloaded(), Fault(503)],
    ids=["429", "retry-after", "529", "503"],
)
async def test_a_limited_request_is_sent_again_and_the_wait_is_reported(
    workplace: Workplace, model: str, fault: Fault
) -> None:
    """R-3.7."""
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    given = await workplace.send("The key is under the mat.")
    steps: list[Reply | Fault] = [fault, fault, fault, Reply("I know.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native) == "I know."
    assert len(mock.requests) == 4
    overloaded = fault.status in (503, 529)
    waited_for = limiter.WAITING_OVERLOAD if overloaded else limiter.WAITING
    assert waited_for in workplace.desk.waits
    assert workplace.desk.waiting_now == []
    assert workplace.desk.saw == [given]


@every_api
@pytest.mark.parametrize(
    ("fault", "failure", "remedy"),
    [
        (Fault.unauthorized(), "key", "_API_KEY to a valid API key"),
        (Fault(403, "permission_error", "not for you"), "permission", "_API_KEY to an API key"),
        (Fault(404, "not_found_error", "model: nope"), "model", "_BASE_URL"),
        (Fault(402, "billing_error", "no money left"), "credit", "_API_KEY belongs to"),
    ],
    ids=["401", "403", "404", "402"],
)
async def test_a_refusal_for_good_is_not_repeated_and_names_the_host_and_the_variable(
    workplace: Workplace, model: str, fault: Fault, failure: str, remedy: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    with InProcessModels(lambda request: fault) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed, match=fault.message) as caught:
                await workplace.turn(native)
    failed = caught.value
    assert len(mock.requests) == 1
    assert (failed.failure, failed.for_good) == (failure, True)
    assert mock.host in failed.message and remedy in failed.remedy
    assert workplace.desk.usages == []


@every_api
async def test_an_api_that_stays_silent_is_what_the_agent_is_shown_to_wait_for(
    workplace: Workplace, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "SILENT_S", 0.01)
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps: list[Reply | Fault] = [Fault.hanging(0.5), Reply("Here I am again.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native) == "Here I am again."
    assert f"an answer of the API at {mock.host}" in workplace.desk.waits
    assert workplace.desk.waiting_now == []


@every_api
async def test_a_request_that_is_not_accepted_is_told_in_the_apis_words(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    with InProcessModels(lambda request: Fault.refused("tools.3: bad schema")) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed, match=r"tools\.3: bad schema") as caught:
                await workplace.turn(native)
    assert len(mock.requests) == 1
    assert (caught.value.failure, caught.value.for_good) == ("rejected", False)
    assert "transcript" in caught.value.remedy


@every_api
@pytest.mark.parametrize(
    "fault", [Fault(), Fault.dropped(), Fault.dropped(Reply("I was about to say " * 20))]
)
async def test_a_server_that_breaks_is_tried_five_times(
    workplace: Workplace, model: str, fault: Fault
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    with InProcessModels(lambda request: fault) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            native._limiter._sleep = at_once  # type: ignore[union-attr]
            with pytest.raises(TurnFailed, match="5 times") as caught:
                await workplace.turn(native)
    assert len(mock.requests) == 5
    if fault.drop is not None:
        assert "I was about to say" in caught.value.partial


async def test_what_was_said_before_the_failure_comes_with_it(workplace: Workplace) -> None:
    steps: list[Reply | Fault] = [looks("north", saying="First I look."), Fault.unauthorized()]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed) as caught:
                await workplace.turn(native)
    assert caught.value.partial == "First I look."


@every_api
async def test_an_answer_that_was_cut_off_says_so(workplace: Workplace, model: str) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    with InProcessModels(lambda request: Reply("It began well and", stop="length")) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            text = await workplace.turn(native)
    assert text.startswith("It began well and\n") and "cut off" in text


@every_api
async def test_an_answer_that_was_held_back_fails_the_turn_and_not_in_silence(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps = [Reply("", stop="filter"), Reply("Here I am again.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            with pytest.raises(TurnFailed, match="blocked the answer"):
                await workplace.turn(native)
            assert await workplace.turn(native) == "Here I am again."


@every_api
async def test_a_tool_call_that_was_cut_off_is_answered_with_an_error(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    cut = Call("Look", {"where": "in the north of the house"}, broken=True)
    steps = [Reply("", [cut], stop="length"), Reply("Again, then.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(see)) as native:
            assert await workplace.turn(native) == "Again, then."
    assert "not a JSON object" in mock.requests[1].results[0].text
