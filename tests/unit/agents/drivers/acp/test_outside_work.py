"""What counts as work without a turn, and what it is estimated to have used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.agents.drivers.acp import program_events as events
from bullpen.agents.drivers.acp import vendor_fields
from bullpen.agents.drivers.acp.outside_work import LATE, REPLAYED, OutsideWork
from bullpen.agents.system.vendors.acp_presets import GENERIC
from bullpen.protocol.agent import Usage

OWN = replace(GENERIC, own_messages="own-.*", own_texts="Info: .*")


def watched(*told: events.Event, cost_usd: float = 0.0, context: int = 0) -> OutsideWork:
    work = OutsideWork(OWN, cost_usd=cost_usd, context=context)
    for event in told:
        work.add(event)
    return work


@pytest.mark.parametrize(
    "event",
    [
        events.TextSaid("More."),
        events.TextSaid("More.", "m-1"),
        events.Thought(),
        events.ToolUse("c-1", kind="execute"),
        events.WorkBegan(),
    ],
)
def test_what_a_model_begins_is_work(event: events.Event) -> None:
    assert watched(event).found


@pytest.mark.parametrize(
    "event",
    [
        events.TextSaid("Your version is old.", "own-1"),
        events.TextSaid("Info: your version is old."),
        events.ModeTold("plan"),
        events.RunBegan("r-1"),
        events.Broke(),
        events.UsageTold(context=900, cost_usd=1.0, window=1000),
    ],
)
def test_what_a_program_tells_after_a_turn_is_no_work(event: events.Event) -> None:
    assert not watched(event).found


def test_the_end_of_a_call_that_began_in_the_turn_is_no_work() -> None:
    work = watched()
    work.add(events.ToolUse("c-1", status="completed"), running=frozenset({"c-1"}))
    assert not work.found
    work.add(events.ToolUse("c-2", status="completed"), running=frozenset({"c-1"}))
    assert work.found


def test_late_words_are_excused_and_a_late_call_is_not() -> None:
    rows: list[tuple[events.Event, tuple[type, ...], bool]] = [
        (events.TextSaid("More."), LATE, False),
        (events.Thought(), LATE, False),
        (events.ToolUse("c-1"), LATE, True),
        (events.WorkBegan(), LATE, True),
        (events.ToolUse("c-1"), REPLAYED, False),
        (events.WorkBegan(), REPLAYED, True),
    ]
    for event, excused, is_work in rows:
        work = watched()
        work.add(event, excused=excused)
        assert work.found is is_work


def test_usage_that_is_reported_is_what_counts() -> None:
    one = Usage.new(requests=1, input_tokens=10, output_tokens=2, unpriced=1)
    work = watched(events.TextSaid("a"), events.UsageTold(one), events.UsageTold(one))
    assert work.usage() == (one.plus(one), False)


def test_each_reported_size_of_the_conversation_is_a_request() -> None:
    sizes = [events.UsageTold(context=size) for size in (110, 120, 120, 150)]
    used, is_estimate = watched(events.TextSaid("a"), *sizes, context=100).usage()
    assert is_estimate
    assert used == Usage.new(requests=3, input_tokens=380, unpriced=3)


def test_a_request_of_which_nothing_is_reported_sent_the_conversation() -> None:
    used, is_estimate = watched(events.WorkBegan(), context=100).usage()
    assert (is_estimate, used.requests, used.input_tokens) == (True, 1, 100)
    again = watched(events.WorkBegan(), events.UsageTold(context=120), events.WorkBegan())
    assert again.usage()[0].input_tokens == 240


def test_a_cost_that_is_reported_is_the_cost() -> None:
    work = watched(events.Thought(), events.UsageTold(context=9, cost_usd=0.5), cost_usd=0.2)
    used, _ = work.usage()
    assert used.cost_usd == pytest.approx(0.3)
    assert used.unpriced == 0
    assert work.cost_usd == 0.5


def test_the_record_names_calls_and_words_and_stays_short() -> None:
    work = watched(*(events.TextSaid("x" * 100) for _ in range(50)))
    for number in range(50):
        work.add_question(events.ToolUse(f"c-{number}", title="t" * 200, kind="execute"))
    assert "50 refused" in work.words()
    assert "execute ttt" in work.words()
    assert len(work.words()) < 1_000


def test_codex_tells_when_it_begins_to_work() -> None:
    def meta(status: object) -> dict[str, object]:
        return {"codex": {"threadStatus": status}}

    assert vendor_fields.begins(meta({"type": "active", "activeFlags": []}))
    for other in ({"type": "idle"}, {"type": "systemError"}, {}, None, "active", {"type": 1}):
        assert not vendor_fields.begins(meta(other))
    assert not vendor_fields.begins(None)
