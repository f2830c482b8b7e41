"""A program that works without a turn: it is stopped, its usage counts, and it is told so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.driver import Capabilities, TurnFailed
from bullpen.agents.drivers.acp.driver import AcpPace
from bullpen.agents.drivers.acp.silence import SilenceLimits
from bullpen.agents.system.vendors.acp_presets import Preset
from bullpen.errors import Refused
from bullpen.testing.desks import RecordingDesk

from .acp_stage import DEADLINE_S, desk_in, preset, started, take, told

COUNTED = Capabilities(permissions=True, goes_on=True, plan_mode=True, resume=True, usage=True)
SOON = AcpPace(start_s=DEADLINE_S, silence=SilenceLimits(shown_s=0.5, ended_s=1.0))


def counting(part: str) -> Preset:
    """The small agent in a part, as a program that reports its usage."""
    return preset(part, capabilities=COUNTED)


def troubles(desk: RecordingDesk) -> list[str]:
    return [data["text"] for kind, data in desk.records if kind == "trouble"]


async def stopped(desk: RecordingDesk, times: int = 1) -> str:
    """Wait until the program was stopped, and return what is recorded of it."""
    with anyio.fail_after(DEADLINE_S):
        while len(troubles(desk)) < times:  # noqa: ASYNC110 - it happens in another process
            await anyio.sleep(0.02)
    return troubles(desk)[times - 1]


@pytest.mark.parametrize("what", ["talks", "thinks", "calls", "asks"])
async def test_a_program_that_goes_on_after_its_turn_is_stopped_and_started_again(
    what: str, tmp_path: Path
) -> None:
    desk = await desk_in(tmp_path)
    async with started(counting(f"goes on: {what}"), desk) as driver:
        assert await take(driver, desk) == "Done."
        assert "worked although no turn was running" in await stopped(desk)
        done = len(told(desk, "request"))
        assert done <= 3
        await anyio.sleep(0.5)
        assert len(told(desk, "request")) == done, "it still works"
        # The conversation is loaded, and the model is told.
        assert await take(driver, desk) == "Again."
        assert len(troubles(desk)) == 1
    assert told(desk, "load") == [{"what": "load", "session": "s-1"}]
    first, second = (row["text"] for row in told(desk, "prompt"))
    assert "went on working" not in first
    assert "You went on working after your last turn had ended." in second
    assert not (tmp_path / "made").exists()


async def test_what_it_used_without_a_turn_counts_for_the_budget(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    desk.may_request = 1
    async with started(counting("goes on: talks"), desk) as driver:
        await take(driver, desk)
        text = await stopped(desk)
        (used,) = desk.usages
        # On a busy machine the first may come before the turn is over.
        assert 1 <= used.requests <= len(told(desk, "request"))
        assert used.input_tokens >= 1_000 * used.requests
        assert used.unpriced == used.requests
        assert "about" in text
        # It is booked at once, not only when there is another turn.
        assert desk.asked_to_spend == 2
        with pytest.raises(Refused, match="used up"):
            await take(driver, desk)
    assert len(told(desk, "initialize")) == 1


async def test_a_question_without_a_turn_is_refused_at_once(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(counting("goes on: asks"), desk) as driver:
        await take(driver, desk)
        # It may ask again before it is stopped.
        assert re.search(r"\b[1-9]\d* refused", await stopped(desk))
    assert desk.wanted == []
    assert {row["option"] for row in told(desk, "answer")} <= {None}
    assert not (tmp_path / "made").exists()


async def test_harmless_updates_after_a_turn_do_not_stop_a_program(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(counting("harmless after"), desk) as driver:
        assert (await take(driver, desk)).startswith("Done.")
        with anyio.fail_after(DEADLINE_S):
            while not told(desk, "went on"):  # noqa: ASYNC110 - it happens in another process
                await anyio.sleep(0.02)
        await anyio.sleep(0.3)
        assert (await take(driver, desk)).startswith("Done.")
    assert len(told(desk, "initialize")) == 1
    assert troubles(desk) == []
    # It left its mode between the turns: it was switched back before the second.
    assert [row["mode"] for row in told(desk, "mode")] == ["ask", "ask"]
    assert "went on working" not in told(desk, "prompt")[-1]["text"]


async def test_a_program_that_does_not_stop_ends_its_agent(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(counting("goes on: always"), desk) as driver:
        for number in range(1, 4):
            assert await take(driver, desk) == "Done."
            await stopped(desk, number)
        with pytest.raises(TurnFailed, match="after each of its last 3 turns") as caught:
            await take(driver, desk)
    assert caught.value.for_good
    assert len(told(desk, "initialize")) == 3


async def test_a_driver_is_closed_in_the_middle_of_stopping_its_program(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(counting("goes on: talks"), desk) as driver:
        await take(driver, desk)
        with anyio.fail_after(DEADLINE_S):
            while not told(desk, "request"):  # noqa: ASYNC110 - it happens in another process
                await anyio.sleep(0.005)
    done = len(told(desk, "request"))
    await anyio.sleep(0.3)
    assert len(told(desk, "request")) == done


# A program that is silent in its turn


async def test_a_turn_in_which_nobody_is_asked_is_shown_and_given_up(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("delegates"), desk, pace=SOON) as driver:
        with pytest.raises(TurnFailed, match="was silent for"):
            await take(driver, desk)
    assert told(desk, "cancel")
    assert any("silent" in text for text in troubles(desk))
    assert any("silent" in text for text in desk.waits)
    assert desk.waiting_now == []


async def test_a_silent_command_is_waited_for(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("runs long"), desk, pace=SOON) as driver:
        assert await take(driver, desk) == "Done."
    assert troubles(desk) == []


async def test_a_program_that_waits_for_permission_is_not_silent(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    slow = SlowDesk(desk.team, "ann", desk.folder, desk.spec, env=desk.env)
    async with started(preset("asks"), slow, pace=SOON) as driver:
        assert await take(driver, slow) == "Done."
    assert troubles(slow) == []


class SlowDesk(RecordingDesk):
    """A desk at which a person takes their time."""

    async def permit(self, call: Call) -> Mapping[str, Any]:
        await anyio.sleep(2.0)
        return await super().permit(call)
