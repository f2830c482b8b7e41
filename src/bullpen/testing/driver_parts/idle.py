"""What every driver promises about the time between turns, and about what it reports as spent."""

from __future__ import annotations

from typing import ClassVar

import anyio
import pytest

from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import Puppet, Stage, needs, started, take


class IdleContract(Stage):
    """A part of the driver contract. Nothing works between turns, and all work is reported."""

    idle_s: ClassVar[float] = 0.2
    """How long to watch a driver between turns. For real programs, set at least 10 s."""

    async def test_between_turns_no_model_is_asked(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Added.")
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            await take(driver, desk)
            asked = len(puppet.requests(desk))
            spent = puppet.tokens(desk)
            await anyio.sleep(self.idle_s)
            assert len(puppet.requests(desk)) == asked
            assert puppet.tokens(desk) == spent
            assert (await take(driver, desk)).text == "Here I am again."
        # The program was not stopped between the turns either.
        assert [data["text"] for kind, data in desk.records if kind == "trouble"] == []

    async def test_the_reported_usage_is_what_the_models_counted(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        for subject in ("Paint", "Varnish"):
            puppet.use_tool("TaskCreate", {"subject": subject, "description": "The wall."})
        puppet.say("Added.")
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.usage)
            for _ in range(2):
                await take(driver, desk)
        counted = puppet.tokens(desk)
        if counted is None:
            pytest.skip("the puppet does not count tokens")
        reported = sum(
            each.input_tokens
            + each.output_tokens
            + each.cache_read_tokens
            + each.cache_write_tokens
            for each in desk.usages
        )
        assert reported == counted
