"""A conversation that no longer fits is summed up; the agent and its work go on (R-5.2, R-1.1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed, TurnInput
from bullpen.agents.drivers.native.compaction import ASK_FOR_SUMMARY
from bullpen.testing.models import Call, Fault, Reply
from bullpen.testing.models import ModelRequest as Asked
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

from .test_turn import LookInput, every_api, looks, tool_that

SUMMARY = "HAND-OVER: painting the north wall, blue; window still open."


def wants_summary(request: Asked) -> bool:
    return ASK_FOR_SUMMARY in request.given


async def much(given: LookInput, desk: Desk) -> str:
    return f"fog in the {given.where}; " * 60


class TooLongAbove:
    """A model that looks around ten times, and whose API takes no more than so many tokens."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.looked = 0
        self.refused = 0

    def __call__(self, request: Asked) -> Reply | Fault:
        if request.tokens > self.most:
            self.refused += 1
            return Fault.too_long(request.tokens, self.most)
        if wants_summary(request):
            return Reply(SUMMARY)
        if self.looked == 10:
            return Reply("All seen.")
        self.looked += 1
        return looks(f"place {self.looked}")


def no_orphans(request: Asked) -> bool:
    """Whether every tool result has its call before it, and every call its result: APIs insist."""
    calls = [call.id for turn in request.turns for call in turn.calls]
    return calls == [result.id for result in request.results]


@every_api
async def test_a_prompt_that_is_too_long_is_compacted_and_the_work_goes_on(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    first = await workplace.send("Paint the wall.")
    brain = TooLongAbove(4_000)
    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(much)) as native:
            assert await workplace.turn(native, "Look at ten places.") == "All seen."
            assert native.remembers(first)
    assert brain.refused >= 1
    assert brain.looked == 10
    assert all(request.agent == "ann" for request in mock.requests)
    assert all(no_orphans(request) for request in mock.requests)
    assert workplace.desk.saw == [first]
    after = mock.requests[-1]
    assert SUMMARY in after.text
    assert "Look at ten places." in after.text, "what the turn began with is kept in its words"
    assert any(SUMMARY in note["text"] for note in workplace.recorded("note"))


async def test_at_80_percent_of_the_window_the_conversation_is_summed_up_before_the_next_request(
    workplace: Workplace,
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 10_000})
    mail = await workplace.send("Paint the wall.")
    sizes = iter([7_900, 8_100, 500, 600])

    def brain(request: Asked) -> Reply:
        if wants_summary(request):
            assert request.body["tool_choice"] == {"type": "none"}
            return Reply(SUMMARY, input_tokens=8_200)
        size = next(sizes)
        reply = looks("north", saying="I look.") if size > 1_000 else Reply("Done.")
        return Reply(reply.text, reply.calls, input_tokens=size)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(much)) as native:
            assert await workplace.turn(native) == "Done."
        async with workplace.driver(mock, tools=tool_that(much)) as again:
            assert again.remembers(mail)
            assert await workplace.turn(again, "Second turn.") == "Done."
    assert [wants_summary(request) for request in mock.requests] == [
        False,
        False,
        True,
        False,
        False,
    ]
    asked, after = mock.requests[2], mock.requests[3]
    assert len(asked.results) == 2, "the summary is made with the newest results"
    assert after.results == () and len(after.turns) == 1
    assert SUMMARY in after.text and "state of your team" in after.text
    assert SUMMARY in mock.requests[4].text, "it is on disk"
    assert len(workplace.desk.usages) == 5, "the summary is paid for, too"


async def test_mail_that_comes_during_a_compaction_is_in_the_request_after_it_once(
    workplace: Workplace,
) -> None:
    """R-1.1: what arrives during the swap is delivered exactly once."""
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 10_000})
    late: list[str] = []

    async def gets_mail(given: LookInput, desk: Desk) -> str:
        late.append(await workplace.send("Use the blue one."))
        return "fog"

    steps = [Reply("", [Call("Look", {"where": "x"})], input_tokens=9_000), Reply("Done.")]

    def brain(request: Asked) -> Reply:
        return Reply(SUMMARY) if wants_summary(request) else steps.pop(0)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(gets_mail)) as native:
            await workplace.turn(native)
    assert ["Use the blue one." in request.text for request in mock.requests] == [
        False,
        False,
        True,
    ]
    assert workplace.desk.saw == late


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "changes"])
@pytest.mark.parametrize("size", [7_900, 9_000], ids=["before the turn", "in the turn"])
async def test_a_compacted_conversation_knows_its_team_again_in_the_same_request(
    workplace: Workplace, is_whole: bool, size: int
) -> None:
    """R-1.1: a turn that told only what changed is told the whole state, once."""
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 10_000})
    state = await workplace.desk.briefing()
    workplace.desk.briefings = 0
    sizes = iter([size, 9_000, 500, 600])

    def brain(request: Asked) -> Reply:
        if wants_summary(request):
            return Reply(SUMMARY)
        now = next(sizes)
        if now == 7_900:
            return Reply("First.", input_tokens=9_000)
        reply = looks("north") if now > 1_000 else Reply("Done.")
        return Reply(reply.text, reply.calls, input_tokens=now)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(much)) as native:
            if size == 7_900:
                await workplace.turn(native, "The first turn.")
            given = TurnInput("What changed: nothing.", whole=is_whole)
            await native.turn(given, workplace.desk)
    after = next(request for request in mock.requests if SUMMARY in request.text)
    assert (state in after.text) is not is_whole
    assert "What changed: nothing." in after.text
    assert all(request.text.count(state) <= 1 for request in mock.requests)


@every_api
async def test_when_even_the_summary_is_too_long_the_older_half_is_dropped_and_it_is_said(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)

    def grow() -> Iterator[Reply]:
        for number in range(12):
            yield looks(f"place {number}")
        yield Reply("All seen.")

    replies = grow()
    small = False

    def brain(request: Asked) -> Reply | Fault:
        nonlocal small
        # The vendor's limit shrinks after ten results: all at once, nothing fits any more.
        small = small or len(request.results) >= 10
        if small and request.tokens > 3_000:
            return Fault.too_long()
        return Reply(SUMMARY) if wants_summary(request) else next(replies)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(much)) as native:
            assert await workplace.turn(native, "Look at all places.") == "All seen."
    assert all(no_orphans(request) for request in mock.requests)
    assert any("Its older part was dropped." in note["text"] for note in workplace.recorded("note"))
    assert any("was dropped" in request.text for request in mock.requests)
    assert "Look at all places." in mock.requests[-1].text


async def test_a_prompt_that_is_too_long_alone_fails_the_turn(workplace: Workplace) -> None:
    with InProcessModels(lambda request: Fault.too_long()) as mock:
        async with workplace.driver(mock) as native:
            with pytest.raises(TurnFailed, match="too long even without history"):
                await workplace.turn(native)
    assert workplace.desk.saw == []


async def test_a_model_that_never_sums_up_loses_the_history_but_not_the_turn(
    workplace: Workplace,
) -> None:
    steps = [Reply("First."), Reply("Second.")]

    def brain(request: Asked) -> Reply | Fault:
        if wants_summary(request):
            return Fault.too_long()
        return steps.pop(0) if len(request.turns) < 3 else Fault.too_long()

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native, "Turn one.")
            assert await workplace.turn(native, "Turn two.") == "Second."
    assert "was dropped" in mock.requests[-1].text and "Turn two." in mock.requests[-1].text


async def large(given: LookInput, desk: Desk) -> str:
    return f"BEGIN {given.where} {'fog ' * 2_000} END {given.where}"


async def test_old_results_are_shortened_before_anything_is_summed_up(
    workplace: Workplace,
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 20_000})
    looked = 0

    def brain(request: Asked) -> Reply:
        nonlocal looked
        assert not wants_summary(request)
        if looked == 10:
            return Reply("All seen.")
        looked += 1
        return Reply("", [Call("Look", {"where": f"{looked}"})], input_tokens=request.tokens)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(large)) as native:
            assert await workplace.turn(native, "Look at ten places.") == "All seen."
    assert all(no_orphans(request) for request in mock.requests)
    assert max(request.tokens for request in mock.requests) < 20_000
    results = [result.text for result in mock.requests[-1].results]
    assert len(results) == 10
    assert "left out" in results[0] and "BEGIN 1" in results[0] and "END 1" in results[0]
    assert results[-1].count("fog") == 2_000, "the newest are whole"
    assert "Look at ten places." in mock.requests[-1].text
    # Each time, the API has to read the whole conversation anew.
    notes = [row["text"] for row in workplace.recorded("note") if "Shortened" in row["text"]]
    assert 1 <= len(notes) <= 3


async def test_the_todo_list_survives_compaction_as_it_is_then(workplace: Workplace) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 10_000})
    item = {"content": "Paint the door", "status": "pending"}
    steps = [Reply("", [Call("TodoWrite", {"todos": [item]})], input_tokens=9_000), Reply("Done.")]

    def brain(request: Asked) -> Reply:
        return Reply(SUMMARY) if wants_summary(request) else steps.pop(0)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native)
    after = mock.requests[-1]
    assert SUMMARY in after.text and "- Paint the door" in after.text
