"""Calls of one answer that only read run side by side, and nothing can tell but the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native.conversation import CANCELLED
from bullpen.agents.tools.side_by_side import SIDE_BY_SIDE_MAX, batches
from bullpen.testing.models import Call as Calling
from bullpen.testing.models import Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

from .test_turn import LookInput, looks, tool_that


class Crowd:
    """A tool that counts how many of its calls run at once."""

    def __init__(self, least: int = 1) -> None:
        self.most = self.now = 0
        self.order: list[str] = []
        self._least, self._all = least, anyio.Event()

    async def look(self, given: LookInput, desk: Desk) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self._least:
            self._all.set()
        with anyio.move_on_after(5):
            await self._all.wait()
        # The first ends last.
        for _ in range(20 if given.where == "0" else 1):
            await anyio.lowlevel.checkpoint()
        self.order.append(given.where)
        self.now -= 1
        return f"seen {given.where}"


async def test_reading_calls_run_at_once_and_are_answered_and_recorded_in_their_order(
    workplace: Workplace,
) -> None:
    crowd = Crowd(least=4)
    steps = [looks("0", "1", "2", "3"), Reply("Done.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(crowd.look)) as native:
            await workplace.turn(native)
    seen = [f"seen {number}" for number in range(4)]
    assert crowd.most == 4 and crowd.order[-1] == "0"
    assert [result.text for result in mock.requests[1].results] == seen
    assert [row["text"] for row in workplace.recorded("result")] == seen


async def test_no_more_than_a_few_run_at_once(workplace: Workplace) -> None:
    crowd = Crowd(least=SIDE_BY_SIDE_MAX)
    steps = [looks(*map(str, range(20))), Reply("Done.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(crowd.look)) as native:
            await workplace.turn(native)
    assert crowd.most == SIDE_BY_SIDE_MAX
    assert len(mock.requests[1].results) == 20


async def test_a_call_that_writes_waits_for_those_before_it_and_those_after_wait_for_it(
    workplace: Workplace,
) -> None:
    crowd, done = Crowd(least=2), list[str]()

    async def write(given: LookInput, desk: Desk) -> str:
        assert crowd.now == 0
        done.append(",".join(sorted(crowd.order)))
        return "written"

    tools = [
        Tool("Look", "Look.", LookInput, "read", crowd.look),
        Tool("Set", "Set.", LookInput, "write", write),
    ]
    asked = [("Look", "0"), ("Look", "1"), ("Set", "x"), ("Look", "2"), ("Look", "3")]
    steps = [Reply("", [Calling(name, {"where": at}) for name, at in asked]), Reply("Done.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=lambda desk: tools) as native:
            await workplace.turn(native)
    assert done == ["0,1"]
    texts = [result.text for result in mock.requests[1].results]
    assert texts == ["seen 0", "seen 1", "written", "seen 2", "seen 3"]


async def test_permission_is_asked_for_one_call_at_a_time(workplace: Workplace) -> None:
    asking = 0

    async def permit(call: Call) -> Mapping[str, Any]:
        nonlocal asking
        asking += 1
        assert asking == 1
        await anyio.lowlevel.checkpoint()
        asking -= 1
        return call.input

    workplace.desk.permit = permit  # type: ignore[method-assign]
    steps = [looks("0", "1", "2"), Reply("Done.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(Crowd().look)) as native:
            await workplace.turn(native)
    assert [result.text for result in mock.requests[1].results] == ["seen 0", "seen 1", "seen 2"]


async def test_a_turn_that_is_stopped_meanwhile_leaves_a_sound_conversation(
    workplace: Workplace,
) -> None:
    begun = anyio.Event()

    async def hang(given: LookInput, desk: Desk) -> str:
        if given.where == "1":
            begun.set()
            await anyio.sleep_forever()
        return "seen"

    steps = [looks("0", "1", "2"), Reply("Going on.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(hang)) as native:
            async with anyio.create_task_group() as group:
                group.start_soon(workplace.turn, native)
                await begun.wait()
                group.cancel_scope.cancel()
            assert await workplace.turn(native, "Go on.") == "Going on."
    first, *rest = [result.text for result in mock.requests[1].results]
    assert first == "seen" and all(CANCELLED in text for text in rest) and len(rest) == 2


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("", []),
        ("r", ["r"]),
        ("rrwrr", ["rr", "w", "rr"]),
        ("wwr", ["w", "w", "r"]),
        ("rwrw", ["r", "w", "r", "w"]),
    ],
)
def test_only_neighbours_that_read_are_together(calls: str, expected: list[str]) -> None:
    assert ["".join(batch) for batch in batches(calls, lambda call: call == "r")] == expected
