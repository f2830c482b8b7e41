"""What every driver promises about mail: in the context once, and seen only if it was there."""

from __future__ import annotations

import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.team.team import Team
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import (
    Puppet,
    Stage,
    begun,
    needs,
    send,
    started,
    states,
    take,
    until,
)


class MailContract(Stage):
    """Mail during a turn and between turns."""

    async def test_mail_is_seen_when_a_request_that_held_it_succeeded(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        first = await send(team, "The key is under the mat.")
        second = await send(team, "And the lamp is broken.")
        puppet.say("I know.")
        async with started(puppet, desk) as driver:
            await take(driver, desk)
        assert desk.saw == [first, second]
        assert await states(team) == {first: "seen", second: "seen"}

    async def test_mail_is_not_seen_while_the_model_has_not_answered(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.hang()
        async with started(puppet, desk) as driver:
            async with begun(driver, desk) as turn:
                await until(lambda: bool(puppet.requests(desk)))
                assert await states(team) == {given: "injected"}
                turn.cancel()
            assert not driver.remembers(given)
        assert desk.saw == []
        assert await states(team) == {given: "injected"}

    async def test_mail_is_not_seen_when_the_turn_fails_before_an_answer(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.fail("no such model")
        async with started(puppet, desk) as driver:
            with pytest.raises(TurnFailed):
                await take(driver, desk)
            assert not driver.remembers(given)
        assert desk.saw == []
        assert await states(team) == {given: "injected"}

    async def test_mail_of_a_turn_that_failed_is_seen_in_the_next(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        given = await send(team, "The key is under the mat.")
        puppet.fail("no such model")
        puppet.say("I know.")
        async with started(puppet, desk) as driver:
            with pytest.raises(TurnFailed):
                await take(driver, desk)
            await take(driver, desk)
        assert desk.saw == [given]

    async def test_mail_that_comes_in_a_turn_is_in_one_of_its_requests_exactly_once(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        for subject in ("Paint", "Varnish"):
            puppet.use_tool("TaskCreate", {"subject": subject, "description": "The wall."})
        puppet.say("Done.")
        # For a program that receives it after its last words, and continues.
        puppet.say("Done, in blue.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.mid_turn)
            given = await desk.begin()
            late = await send(team, "Use the blue one.")
            await take(driver, desk, given)
        held = sum(text.count("Use the blue one.") for text in puppet.requests(desk))
        assert held == 1
        assert desk.saw == [late]

    async def test_without_that_declared_it_waits_for_the_next_turn(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.say("Done.")
        puppet.say("In blue, then.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.mid_turn)
            given = await desk.begin()
            late = await send(team, "Use the blue one.")
            await take(driver, desk, given)
            assert desk.saw == []
            await take(driver, desk)
        held = ["Use the blue one." in text for text in puppet.requests(desk)]
        assert held == [False, False, True]
        assert desk.saw == [late]

    async def test_mail_that_a_failed_request_held_in_mid_turn_is_not_seen(
        self, puppet: Puppet, desk: RecordingDesk, team: Team
    ) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.fail("the line is dead")
        # For a program that retries the mail by itself after that.
        puppet.fail("the line is dead")
        first = await send(team, "Paint, please.")
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.mid_turn)
            given = await desk.begin()
            late = await send(team, "Use the blue one.")
            with pytest.raises(TurnFailed):
                await take(driver, desk, given)
        assert (await states(team))[first] == "seen"
        if "Use the blue one." not in puppet.requests(desk)[0]:
            assert desk.saw == [first]
            assert (await states(team))[late] != "seen"
