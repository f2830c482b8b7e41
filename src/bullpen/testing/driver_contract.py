"""What every driver promises: one test for each promise. Subclass it to check a driver.

class TestMyDriver(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> MyPuppet:
        return MyPuppet(tmp_path)

The puppet is the "model" behind the driver. A test tells it all its answers, in order, before the
driver is started; `say`, `fail` and `hang` end a turn.

A driver declares what it can do (`Capabilities`), and the suite checks that: for each capability,
one test requires it where it is declared, and another its absence where it is not.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed, TurnInput, TurnResult
from bullpen.errors import BullpenError, Refused
from bullpen.team.team import Team
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_parts.idle import IdleContract
from bullpen.testing.driver_parts.mail import MailContract
from bullpen.testing.driver_stage import (
    DEADLINE_S,
    BrokenDesk,
    Puppet,
    begun,
    needs,
    send,
    started,
    take,
    until,
)
from bullpen.testing.gates.driver_rights import RightsContract

__all__ = ["DriverContract", "Puppet"]


class DriverContract(MailContract, RightsContract, IdleContract):
    """Every promise of `agents.contracts.driver.Driver`. A subclass has a fixture `puppet`."""

    # Results

    async def test_the_last_thing_said_comes_back_whole(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        report = "".join(f'Line {number}: grüße, 日本語 <b> & "quotes".\n' for number in range(500))
        puppet.say(report + "end")
        async with started(puppet, desk) as driver:
            assert await take(driver, desk) == TurnResult(report + "end")

    async def test_the_model_is_given_the_text_of_the_turn(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.say("Done.")
        async with started(puppet, desk) as driver:
            await take(driver, desk, TurnInput("Look at the north wall."))
        assert "Look at the north wall." in puppet.requests(desk)[0]

    async def test_a_tool_that_the_model_calls_acts_on_the_team_under_its_own_name(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Added.")
        async with started(puppet, desk) as driver:
            await take(driver, desk)
        assert [task.subject for task in (await team.tasks.list()).tasks] == ["Paint"]
        assert (await team.events())[-1].actor == "ann"

    async def test_what_a_turn_used_is_reported(self, puppet: Puppet, desk: RecordingDesk) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Added.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.usage)
            await take(driver, desk)
        assert sum(usage.input_tokens + usage.requests for usage in desk.usages) >= 2
        if driver.capabilities.brakes:
            assert sum(usage.requests for usage in desk.usages) == 2

    async def test_a_driver_that_does_not_declare_usage_reports_none(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.say("Done.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.usage)
            await take(driver, desk)
        assert desk.usages == []

    async def test_no_request_is_made_when_nothing_may_be_spent_any_more(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Added.")
        desk.may_request = 1
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.brakes)
            with pytest.raises(Refused, match="used up"):
                await take(driver, desk)
        assert desk.asked_to_spend == 2
        assert len(puppet.requests(desk)) == 1
        if driver.capabilities.usage:
            assert sum(usage.requests for usage in desk.usages) == 1

    async def test_no_turn_begins_when_nothing_may_be_spent_any_more(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.say("Done.")
        desk.may_request = 0
        async with started(puppet, desk) as driver:
            with pytest.raises(Refused, match="used up"):
                await take(driver, desk)
        assert puppet.requests(desk) == []

    async def test_a_driver_that_does_not_declare_brakes_ends_the_turn_it_began(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Added.")
        desk.may_request = 1
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.brakes)
            await take(driver, desk)
        assert len(puppet.requests(desk)) == 2

    # Cancelling

    async def test_a_failed_turn_names_the_cause_and_what_was_said_before(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        tool = {"subject": "Paint", "description": "The wall."}
        puppet.use_tool("TaskCreate", tool, saying="I begin with the wall.")
        puppet.fail("credit balance is too low")
        async with started(puppet, desk) as driver:
            with pytest.raises(TurnFailed) as caught:
                await take(driver, desk)
        # Some programs know this one, and write it with a capital.
        assert "credit balance is too low" in caught.value.message.lower()
        assert "I begin with the wall." in caught.value.partial

    async def test_turns_after_a_failure_work(self, puppet: Puppet, desk: RecordingDesk) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.fail("no such model")
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            with pytest.raises(TurnFailed):
                await take(driver, desk)
            assert (await take(driver, desk)).text == "Here I am again."

    async def test_a_turn_that_waits_for_the_model_is_cancelled_at_once(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.hang()
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            with anyio.fail_after(DEADLINE_S):
                async with begun(driver, desk) as turn:
                    await until(lambda: bool(puppet.requests(desk)))
                    turn.cancel()
            assert (await take(driver, desk)).text == "Here I am again."

    async def test_a_turn_in_the_middle_of_a_command_is_cancelled_at_once(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        ticks = tmp_path / "ticks"
        puppet.use_tool("Bash", {"command": f"while :; do echo . >> {ticks}; sleep 0.1; done"})
        puppet.then()
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            with anyio.fail_after(DEADLINE_S):
                async with begun(driver, desk) as turn:
                    await until(ticks.exists)
                    turn.cancel()
            assert (await take(driver, desk)).text == "Here I am again."
        counted = ticks.stat().st_size
        await anyio.sleep(0.5)
        assert ticks.stat().st_size == counted, "the command outlived its agent"

    # A new process

    async def test_a_restarted_driver_remembers_what_it_saw(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.say("I know.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.resume)
            await take(driver, desk)
        async with started(puppet, desk) as again:
            assert again.remembers(given)
            assert not again.remembers("another")

    async def test_a_driver_that_does_not_declare_resume_remembers_nothing(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.say("I know.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.resume)
            await take(driver, desk)
        async with started(puppet, desk) as again:
            assert not again.remembers(given)

    async def test_a_driver_that_stops_before_it_could_say_seen_remembers_all_the_same(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.say("I know.")
        broken = BrokenDesk(desk.team, "ann", desk.folder, puppet.spec, env=puppet.env)
        async with started(puppet, broken) as driver:
            needs(driver.capabilities.resume)
            with pytest.raises(BullpenError, match="the store is gone"):
                await take(driver, broken)
        async with started(puppet, desk) as again:
            assert again.remembers(given)

    async def test_a_restarted_driver_goes_on_with_its_turns(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.say("First.")
        puppet.say("Second.")
        async with started(puppet, desk) as driver:
            await take(driver, desk)
        async with started(puppet, desk) as again:
            assert (await take(again, desk)).text == "Second."

    async def test_a_restarted_driver_that_lost_its_conversation_tells_the_whole_briefing(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.say("I know.")
        puppet.say("Nothing to do.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.keeps_briefing)
            await take(driver, desk)
        async with started(puppet, desk) as again:
            has_it = again.remembers(given)
            await take(again, desk, TurnInput("Nothing changed.", whole=False))
        assert has_it or await desk.briefing() in puppet.requests(desk)[-1]

    async def test_a_driver_that_keeps_no_briefing_never_asks_for_it(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.say("First.")
        puppet.say("Second.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.keeps_briefing)
            await take(driver, desk)
            await take(driver, desk)
        assert desk.briefings == 0
