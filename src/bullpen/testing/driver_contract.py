"""What every driver promises: one named test for each promise. Subclass it to check a driver.

class TestMyDriver(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> MyPuppet:
        return MyPuppet(tmp_path)

The puppet is the "model" behind the driver. A test tells it everything that it is to answer, in
order, before the driver is started; `say`, `fail` and `hang` end a turn.

What a driver cannot do it declares (`Capabilities`), and the suite checks that this is true, too:
for each capability one test holds the driver to it and another to its absence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from bullpen.agents.drivers.base import Driver, TurnFailed, TurnInput, TurnResult
from bullpen.agents.policy.call import Call
from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.team.teams import Teams
from bullpen.testing.desks import RecordingDesk

CANCEL_S = 2.0
"""How long a cancelled turn may take to end."""
DEADLINE_S = 120.0
"""How long a test waits for anything else: much, for slow programs on slow machines."""


class Puppet(Protocol):
    """A model that does as it is told, and the driver that asks it."""

    @property
    def spec(self) -> AgentSpec:
        """What the agent is spawned with. It may use the tools TaskCreate and Bash."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the desk."""

    def driver(self) -> Driver:
        """A new driver for this model, as a new process would make one."""

    def say(self, text: str) -> None:
        """Answer the next request with this text, which ends the turn."""

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        """Answer the next request with a tool call, and with some words before it if given."""

    def fail(self, cause: str) -> None:
        """Answer the next request with an error that ends the turn; repeating it does not help."""

    def hang(self) -> None:
        """Do not answer the next request."""

    def then(self) -> None:
        """What follows is for the next turn: the test breaks this one off before an answer."""

    def requests(self, desk: RecordingDesk) -> list[str]:
        """What was new in each request, in order: the text that was given, mail, results."""


class DriverContract:
    """Every promise of `bullpen.agents.drivers.base.Driver`. A subclass has a fixture `puppet`."""

    @pytest.fixture
    async def team(self) -> Team:
        """A team of a lead, ann, whose driver is tested, and bob."""
        teams = Teams(MemoryStore())
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in ("ann", "bob"):
            await team.roster.join(name, by=LEAD)
        return team

    @pytest.fixture
    def desk(self, team: Team, puppet: Puppet, tmp_path: Path) -> RecordingDesk:
        folder = tmp_path / "ann"
        folder.mkdir()
        return RecordingDesk(team, "ann", folder, puppet.spec, env=puppet.env)

    # What comes back

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

    # Mail

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
        # For a program that hears it when it has said its last word, and goes on.
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

    # Permission

    async def test_every_call_is_asked_for_before_it_is_made(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Done.")
        existed: list[bool] = []

        def look(call: Call) -> Mapping[str, Any]:
            existed.append(made.exists())
            return call.input

        desk.rule = look
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            await take(driver, desk)
        (asked,) = [call for call in desk.wanted if call.kind != "team"]
        assert (asked.tool, asked.kind) == ("Bash", "run")
        assert asked.input["command"] == f"touch {made}"
        assert (existed, made.exists()) == ([False], True)

    async def test_a_driver_that_does_not_declare_permissions_asks_for_nothing(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Done.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.permissions)
            await take(driver, desk)
        assert [call for call in desk.wanted if call.kind != "team"] == []
        assert made.exists()

    async def test_a_call_that_is_denied_is_not_made(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Then not.")

        def deny(call: Call) -> Mapping[str, Any]:
            raise Refused("You may not.", reason="denied")

        desk.rule = deny
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            # A model goes on with other things; a script that did not foresee it fails.
            with suppress(TurnFailed):
                await take(driver, desk)
        assert desk.wanted
        assert not made.exists()
        asked = puppet.requests(desk)
        if driver.capabilities.goes_on:
            assert "You may not." in asked[1]
        else:
            assert len(asked) == 1

    async def test_what_an_answer_changes_is_what_is_called(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        asked, changed = tmp_path / "asked", tmp_path / "changed"
        puppet.use_tool("Bash", {"command": f"touch {asked}"})
        puppet.say("Done.")
        desk.rule = lambda _: {"command": f"touch {changed}"}
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            if driver.capabilities.edits:
                await take(driver, desk)
            else:
                # It cannot be called like that, and as it was it was not allowed.
                with suppress(TurnFailed):
                    await take(driver, desk)
        assert (asked.exists(), changed.exists()) == (False, driver.capabilities.edits)

    async def test_in_plan_mode_nothing_is_changed(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Then not.")
        planning = RecordingDesk(
            desk.team, "ann", desk.folder, puppet.spec.evolve(mode="plan"), env=puppet.env
        )

        def only_look(call: Call) -> Mapping[str, Any]:
            if call.kind in ("write", "run"):
                raise Refused("Not before your plan is approved.", reason="denied")
            return call.input

        planning.rule = only_look
        async with started(puppet, planning) as driver:
            needs(driver.capabilities.plan_mode)
            with suppress(TurnFailed):
                await take(driver, planning)
        assert not made.exists()

    async def test_a_plan_reaches_whoever_approves_it(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.use_tool("ExitPlanMode", {"plan": "1. Paint the wall.\n2. Let it dry."})
        puppet.say("I wait.")
        planning = RecordingDesk(
            desk.team, "ann", desk.folder, puppet.spec.evolve(mode="plan"), env=puppet.env
        )
        async with started(puppet, planning) as driver:
            needs(driver.capabilities.plan_mode)
            with suppress(TurnFailed):
                await take(driver, planning)
        (plan,) = [plan for plan in planning.plans if plan is not None]
        assert "2. Let it dry." in plan

    # Breaking off

    async def test_a_failed_turn_names_the_cause_and_what_was_said_before(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        tool = {"subject": "Paint", "description": "The wall."}
        puppet.use_tool("TaskCreate", tool, saying="I begin with the wall.")
        puppet.fail("credit balance is too low")
        async with started(puppet, desk) as driver:
            with pytest.raises(TurnFailed) as caught:
                await take(driver, desk)
        assert "credit balance is too low" in caught.value.message
        assert "I begin with the wall." in caught.value.partial

    async def test_turns_after_a_failure_work(self, puppet: Puppet, desk: RecordingDesk) -> None:
        puppet.use_tool("TaskCreate", {"subject": "Paint", "description": "The wall."})
        puppet.fail("overloaded")
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
            async with begun(driver, desk) as turn:
                await until(lambda: bool(puppet.requests(desk)))
                cancelled_at = anyio.current_time()
                turn.cancel()
            assert anyio.current_time() - cancelled_at < CANCEL_S
            assert (await take(driver, desk)).text == "Here I am again."

    async def test_a_turn_in_the_middle_of_a_command_is_cancelled_at_once(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        ticks = tmp_path / "ticks"
        puppet.use_tool("Bash", {"command": f"while :; do echo . >> {ticks}; sleep 0.1; done"})
        puppet.then()
        puppet.say("Here I am again.")
        async with started(puppet, desk) as driver:
            async with begun(driver, desk) as turn:
                await until(ticks.exists)
                cancelled_at = anyio.current_time()
                turn.cancel()
            assert anyio.current_time() - cancelled_at < CANCEL_S
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


class BrokenDesk(RecordingDesk):
    """A desk whose store is gone in the moment when mail was seen."""

    async def seen(self, ids: Sequence[str]) -> None:
        raise Unavailable("the store is gone")


def needs(capability: bool) -> None:
    """Skip a test of something that the driver says it cannot do."""
    if not capability:
        pytest.skip("the driver does not declare it")


@asynccontextmanager
async def started(puppet: Puppet, desk: RecordingDesk) -> AsyncIterator[Driver]:
    """A new driver, started, and closed at the end."""
    driver = puppet.driver()
    with anyio.fail_after(DEADLINE_S):
        await driver.start(desk)
    try:
        yield driver
    finally:
        with anyio.fail_after(DEADLINE_S, shield=True):
            await driver.aclose()


async def take(driver: Driver, desk: RecordingDesk, given: TurnInput | None = None) -> TurnResult:
    """A whole turn, with the mail there is unless it was given something else."""
    with anyio.fail_after(DEADLINE_S):
        return await driver.turn(given or await desk.begin(), desk)


@asynccontextmanager
async def begun(driver: Driver, desk: RecordingDesk) -> AsyncIterator[anyio.CancelScope]:
    """A turn that goes on beside the test; the scope cancels it. Leaving waits for its end."""
    given = await desk.begin()
    scope = anyio.CancelScope()

    async def go() -> None:
        with scope:
            await driver.turn(given, desk)

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        yield scope


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is about to be true."""
    with anyio.fail_after(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - what it waits for may happen in another process
            await anyio.sleep(0.01)


async def send(team: Team, text: str) -> str:
    """A message of the lead to ann; its id."""
    return (await team.mailbox.send("ann", text, sender=LEAD)).id


async def states(team: Team) -> dict[str, str]:
    """How far ann's messages got."""
    box = await team.mailbox.read("ann", history=True)
    return {entry.id: entry.state for entry in box.entries}
