"""What a team costs that has nothing to do, hour after hour, in simulated time."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed, TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, IdleNotification
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.crews import Crew, Hired, Told, eventually, new_team, nothing, simulate, simulated_ms

MATES = ("alice", "bob", "carl", "dora", "emil")
HOUR_S = 3600
_SPINNING_S = 120
REAL = Pace()
SLOW = Pace(beat_s=60.0, beat_ttl_s=150.0)
"""As in real life, but for heartbeats, which cost most of what an hour takes to simulate."""


def now_s() -> float:
    return simulated_ms() / 1000


def in_simulation(folder: Path, body: Callable[[Crew], Awaitable[None]]) -> None:
    """Run a test with agents on a team in memory; an hour takes a moment."""

    async def run() -> None:
        store = MemoryStore(clock=simulated_ms)
        async with Teams(store, clock=simulated_ms) as teams:
            team = await new_team(teams)
            async with anyio.create_task_group() as group:
                await body(Crew(team, folder, group, clock=simulated_ms))
                group.cancel_scope.cancel()

    with no_spinning():
        simulate(run)


@contextmanager
def no_spinning() -> Iterator[None]:
    """Fail instead of hanging: where time only passes while all wait, who never waits stops it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError("An agent looks again and again instead of waiting.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SPINNING_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


async def foreign_notice(team: Team, sender: str, **fields: str) -> None:
    """An idle notice as another program writes it."""
    notice = IdleNotification.new(
        sender=sender, timestamp=iso(simulated_ms()), idle_reason="available", **fields
    )
    await team.mailbox.send(LEAD, notice.text(), sender=sender)


async def silence(team: Team, minute: int) -> None:
    """Nobody says anything."""


async def empty_notices(team: Team, minute: int) -> None:
    """Every teammate says every minute that it is idle."""
    for name in MATES:
        await foreign_notice(team, name)


async def thanks(team: Team, minute: int) -> None:
    """Everybody thanks everybody."""
    words = ("Got it, thanks!", "ok", "Understood. Will do!", "Thank you 🙏")[minute % 4]
    await team.mailbox.send(LEAD, words, sender=MATES[minute % 5])
    await team.mailbox.send(MATES[minute % 5], words, sender=LEAD)
    await team.mailbox.send(MATES[minute % 5], words, sender=MATES[(minute + 1) % 5])


@pytest.mark.parametrize("noise", [silence, empty_notices, thanks])
def test_five_idle_teammates_for_an_hour_cost_no_turn(
    tmp_path: Path, noise: Callable[[Team, int], Awaitable[None]]
) -> None:
    """R-5.1: 5 idle teammates for one hour = 0 lead turns."""

    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW)
        mates = [await crew.hire(name, pace=SLOW, claims=True) for name in MATES]
        began = now_s()
        for minute in range(60):
            await noise(crew.team, minute)
            await anyio.sleep(60)
        assert now_s() - began >= HOUR_S
        assert lead.turns == []
        assert [mate.turns for mate in mates] == [[]] * 5
        # They did not sleep through it: a word with content is heard by all.
        await crew.team.mailbox.send(LEAD, "How far are we?", sender="alice")
        await crew.team.mailbox.broadcast("How far are you?", sender=LEAD)
        await eventually(lambda: len(lead.turns) == 1)
        await eventually(lambda: [len(mate.turns) for mate in mates] == [1] * 5)

    in_simulation(tmp_path, body)


def test_five_completions_within_ten_seconds_are_one_lead_turn(tmp_path: Path) -> None:
    """R-5.1: 5 completions within 10 s = 1 lead turn, with all five reports in it."""

    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW)
        begun = now_s()
        for number, name in enumerate(MATES, start=1):
            await crew.team.tasks.add(f"Task of {name}", by=LEAD)
            await crew.hire(name, completes_at(begun + 60 + 1.9 * number), pace=SLOW, claims=True)
        await eventually(lambda: len(lead.turns) == 1, within_s=120)
        assert now_s() - begun < 60 + 1.9 * 5 + 1
        assert all(f"{name} is done" in lead.turns[0] for name in MATES)
        assert "5 of 5 tasks are done" in lead.turns[0]
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 1

    in_simulation(tmp_path, body)


def completes_at(at_s: float) -> Callable[[TurnInput, Desk], Awaitable[str]]:
    """A turn that completes its task at a certain time."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        if not desk.attempts:
            return ""
        await anyio.sleep(max(0.0, at_s - now_s()))
        for task_id, attempt in list(desk.attempts.items()):
            await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt)
            del desk.attempts[task_id]
        return f"{desk.agent} is done"

    return turn


def test_reports_do_not_wait_for_somebody_who_works_for_long(tmp_path: Path) -> None:
    """Others may report soon, so the lead waits a little; not until they all have."""

    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW)
        begun = now_s()
        for name in MATES:
            await crew.team.tasks.add(f"Task of {name}", by=LEAD)
        await crew.hire("alice", completes_at(begun + HOUR_S / 2), pace=SLOW, claims=True)
        for number, name in enumerate(MATES[1:]):
            await crew.hire(name, completes_at(begun + 60 + 2 * number), pace=SLOW, claims=True)
        await eventually(lambda: len(lead.turns) == 1, within_s=120)
        assert begun + 60 + REAL.gather_s <= now_s() < begun + 60 + REAL.gather_s + 1
        assert all(f"{name} is done" in lead.turns[0] for name in MATES[1:])
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 2
        assert "alice is done" in lead.turns[1]

    in_simulation(tmp_path, body)


def test_a_completion_while_nobody_else_works_begins_a_lead_turn_at_once(tmp_path: Path) -> None:
    """R-5.1: what is coalesced is never late for it when there is nothing to wait for."""

    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW)
        for name in MATES[1:]:
            await crew.hire(name, pace=SLOW)
        at_s = now_s() + 60
        await crew.team.tasks.add("Alone", by=LEAD)
        await crew.hire("alice", completes_at(at_s), pace=SLOW, claims=True)
        await eventually(lambda: len(lead.turns) == 1, within_s=120)
        assert at_s <= now_s() < at_s + 1
        assert "alice is done" in lead.turns[0]

    in_simulation(tmp_path, body)


def test_identical_notices_are_told_once_and_all_of_them_are_seen(tmp_path: Path) -> None:
    """R-5.1: notices are coalesced, and none of them comes again."""

    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW)
        await crew.team.roster.join("alice", by=LEAD)
        await crew.team.roster.join("bob", by=LEAD)
        for _ in range(30):
            await foreign_notice(crew.team, "alice")
            await foreign_notice(crew.team, "bob")
            await anyio.sleep(60)
        await foreign_notice(crew.team, "alice", result="The parser is written.")
        await eventually(lambda: len(lead.turns) == 1)
        assert lead.turns[0].count('teammate_id="bob"') == 1
        assert lead.turns[0].count('teammate_id="alice"') == 2
        assert lead.turns[0].count("The parser is written.") == 1

        async def all_are_seen() -> bool:
            box = await crew.team.mailbox.read(LEAD, history=True)
            return [entry.state for entry in box.entries] == ["seen"] * 61

        await eventually(all_are_seen)
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 1

    in_simulation(tmp_path, body)


def test_a_tool_call_of_fifteen_minutes_keeps_its_heartbeat_and_its_task(tmp_path: Path) -> None:
    """R-3.3: a 15-minute tool call is never lost; progress is not liveness."""
    called_s = 900

    async def turn(given: TurnInput, desk: Desk) -> str:
        if desk.attempts:
            desk.doing("Bash", "make everything")
            await anyio.sleep(called_s)
            task_id, attempt = desk.attempts.popitem()
            await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt)
        return "done"

    async def body(crew: Crew) -> None:
        team = crew.team
        # Seen from another machine, which has nothing to go by but heartbeats.
        roll = RosterView(team, clock=simulated_ms)
        roll._host = "another-machine"
        await crew.hire(LEAD, pace=REAL)
        await team.tasks.add("Long", by=LEAD)
        alice = await crew.hire("alice", turn, pace=REAL, claims=True)
        await eventually(lambda: len(alice.turns) == 1)
        await anyio.sleep(1)
        attempt = (await team.tasks.get("1")).facts.attempt
        for _ in range(called_s - 10):
            await anyio.sleep(1)
            view = next(each for each in (await roll.look())[1] if each.name == "alice")
            assert (view.state, view.tool) == ("working", "Bash")
            assert await roll.tend(by=LEAD) == []
            assert await team.tasks.expire(by=LEAD) == []
            task = await team.tasks.get("1")
            assert (task.owner, task.facts.attempt) == ("alice", attempt)

        async def completed() -> bool:
            return (await team.tasks.get("1")).status == "completed"

        await eventually(completed, within_s=60)

    in_simulation(tmp_path, body)


def test_a_silent_agent_on_another_machine_is_lost_and_its_task_is_free(tmp_path: Path) -> None:
    """The same clock that spares a long tool call does notice a dead process."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep(HOUR_S)
        return ""

    async def body(crew: Crew) -> None:
        roll = RosterView(crew.team, clock=simulated_ms)
        roll._host = "another-machine"
        alice = await crew.hire("alice", turn, pace=Pace(beat_s=HOUR_S), claims=True)
        await crew.team.tasks.add("Never done", by=LEAD)
        await eventually(lambda: len(alice.turns) == 1)
        await anyio.sleep(REAL.beat_ttl_s + 1)
        assert [view.state for view in (await roll.look())[1] if view.name == "alice"] == ["lost"]
        lost: list[str] = []
        for _ in range(round(3 * REAL.beat_ttl_s) + 1):
            # Only those who keep looking know that somebody is silent.
            await anyio.sleep(1)
            lost += await roll.tend(by=LEAD)
        assert lost == ["alice"]
        assert (await crew.team.tasks.get("1")).status == "pending"

    in_simulation(tmp_path, body)


@pytest.mark.parametrize("tasks", [0, 3])
def test_the_reminders_of_a_lead_stop(tmp_path: Path, tasks: int) -> None:
    """R-5.1: a lead that does nothing about it is reminded twice, not for an hour."""

    async def body(crew: Crew) -> None:
        for name in MATES:
            await crew.hire(name, pace=SLOW)
        for number in range(tasks):
            await crew.team.tasks.add(f"Task {number}", by=LEAD)
        lead = await crew.hire(LEAD, pace=SLOW, prompt="The goal", options={"until_done": True})
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 3
        assert sum("Everyone is idle" in text for text in lead.turns) == 2
        assert lead.ended is not None
        cause = "nobody had anything left to do"
        if tasks:
            cause = "everyone was idle, with open tasks: #1, #2, #3"
        assert (lead.ended.end, lead.ended.cause) == ("finished", cause)

    in_simulation(tmp_path, body)


def test_a_lead_is_not_reminded_while_somebody_works(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW, prompt="The goal", options={"until_done": True})
        await crew.team.tasks.add("Long", by=LEAD)
        done_s = now_s() + HOUR_S - 60
        await crew.hire("alice", completes_at(done_s), pace=SLOW, claims=True)
        await eventually(lambda: len(lead.turns) == 1)
        await anyio.sleep(HOUR_S - 120)
        assert len(lead.turns) == 1
        await eventually(lambda: len(lead.turns) == 2, within_s=120)
        assert "alice is done" in lead.turns[1]

    in_simulation(tmp_path, body)


def test_a_lead_does_not_give_up_while_a_teammate_waits_with_a_task(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        lead = await crew.hire(LEAD, pace=SLOW, prompt="The goal", options={"until_done": True})
        await crew.hire("alice", pace=SLOW)
        await crew.team.tasks.add("Long", by=LEAD)
        await crew.team.tasks.claim("1", by="alice")
        await eventually(lambda: len(lead.turns) == 1)
        await anyio.sleep(100)
        assert lead.ended is None
        assert len(lead.turns) == 1

    in_simulation(tmp_path, body)


def test_a_lead_that_a_person_talks_with_waits_for_words(tmp_path: Path) -> None:
    """It is not reminded to finish, nor of its own task, until nobody talks with it any more."""

    async def body(crew: Crew) -> None:
        await crew.team.agents.converse(True, by=LEAD)
        await crew.team.tasks.add("Open", by=LEAD)

        async def claims(given: TurnInput, desk: Desk) -> str:
            if not desk.attempts:
                task = await desk.team.tasks.claim("1", by=LEAD)
                desk.attempts["1"] = task.facts.attempt
            return "A or B?"

        options = {"until_done": True}
        lead = await crew.hire(LEAD, claims, pace=SLOW, prompt="The goal", options=options)
        await eventually(lambda: len(lead.turns) == 1)
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 1
        assert lead.ended is None
        await crew.team.mailbox.send(LEAD, "And the printer?", sender=LEAD, voice="human")
        await eventually(lambda: len(lead.turns) == 2)
        assert "And the printer?" in lead.turns[1]
        await anyio.sleep(HOUR_S)
        assert len(lead.turns) == 2
        await crew.team.agents.converse(False, by=LEAD)
        await eventually(lambda: len(lead.turns) == 3, within_s=120)
        assert "#1" in lead.turns[2]

    in_simulation(tmp_path, body)


class TestWaiting:
    """Something is due that may not be done yet: it is waited for, not looked at for ever."""

    async def order(self, crew: Crew, action: str) -> None:
        order = Control.new(action=action, sender=LEAD)
        await crew.team.mailbox.send("alice", order.text(), sender=LEAD)

    def test_a_paused_agent_that_owes_a_task_waits(self, tmp_path: Path) -> None:
        async def turn(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep(60)
            return ""

        async def body(crew: Crew) -> None:
            await crew.team.tasks.add("Never done", by=LEAD)
            alice = await crew.hire("alice", turn, pace=SLOW, claims=True)
            await eventually(lambda: len(alice.turns) == 1)
            await self.order(crew, "pause")
            await anyio.sleep(HOUR_S)
            assert len(alice.turns) == 1
            await self.order(crew, "resume")
            await eventually(lambda: len(alice.turns) == 2)
            assert "still yours" in alice.turns[1]

        in_simulation(tmp_path, body)

    def test_a_paused_agent_with_a_timer_waits(self, tmp_path: Path) -> None:
        async def body(crew: Crew) -> None:
            alice = await crew.hire("alice", pace=SLOW)
            alice.desk.wake_later(60, "Look at the build")
            await self.order(crew, "pause")
            await anyio.sleep(HOUR_S)
            assert alice.turns == []
            await self.order(crew, "resume")
            await eventually(lambda: len(alice.turns) == 1)
            assert "Look at the build" in alice.turns[0]

        in_simulation(tmp_path, body)

    def test_an_agent_that_waits_to_try_again_waits(self, tmp_path: Path) -> None:
        tries: list[float] = []

        async def turn(given: TurnInput, desk: Desk) -> str:
            tries.append(now_s())
            desk.wake_later(1, "Look at the build")
            raise TurnFailed("The model is overloaded.")

        async def body(crew: Crew) -> None:
            alice = await crew.hire("alice", turn, pace=SLOW, prompt="Go")
            await anyio.sleep(HOUR_S)
            assert alice.ended is not None
            waits = [round(after - before) for before, after in pairwise(tries)]
            assert waits == [SLOW.retry_s, SLOW.retry_s * 2, SLOW.retry_s * 4]

        in_simulation(tmp_path, body)

    def test_an_agent_whose_task_was_taken_away_waits(self, tmp_path: Path) -> None:
        async def turn(given: TurnInput, desk: Desk) -> str:
            if desk.attempts:
                await desk.team.tasks.release("1", by=LEAD)
                await desk.team.tasks.claim("1", by=LEAD)
            return ""

        async def body(crew: Crew) -> None:
            await crew.team.tasks.add("For somebody else", by=LEAD)
            alice = await crew.hire("alice", turn, pace=SLOW, claims=True)
            await eventually(lambda: len(alice.turns) == 1)
            await anyio.sleep(HOUR_S)
            assert len(alice.turns) == 1

        in_simulation(tmp_path, body)


class TestANewContext:
    """R-1.1: team truth lives in the store; a context that knows nothing is told it all."""

    def test_what_came_during_the_swap_is_delivered_exactly_once(self, tmp_path: Path) -> None:
        async def body(crew: Crew) -> None:
            lead = await self.in_a_turn(crew)
            fresh = Told(nothing)
            lead.runner._driver = fresh
            words = [f"News number {number} of the swap" for number in range(20)]
            for number, text in enumerate(words):
                await crew.team.mailbox.send(LEAD, text, sender="bob")
                if number == 9:
                    await self.cancel(crew.team)
                await anyio.sleep(0.05 * number)
            await anyio.sleep(HOUR_S)
            given = "\n".join(each.text for each in fresh.given)
            assert [given.count(text) for text in words] == [1] * 20
            assert given.count("Where are we?") == 1
            box = await crew.team.mailbox.read(LEAD, history=True)
            assert {entry.state for entry in box.entries} == {"seen"}
            turns = len(fresh.given)
            await anyio.sleep(HOUR_S)
            assert len(fresh.given) == turns

        in_simulation(tmp_path, body)

    async def in_a_turn(self, crew: Crew) -> Hired:
        """A lead with a team at work, in the middle of a turn that would take for ever."""
        team = crew.team

        async def never(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep_forever()
            return ""

        async def work(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep(10 * HOUR_S)
            return ""

        lead = await crew.hire(LEAD, never, pace=SLOW)
        await crew.hire("bob", pace=SLOW)
        await team.tasks.add("Write the parser", by=LEAD)
        await team.tasks.add("Review it", by=LEAD, blocked_by=["1"], owner="bob")
        pace = Pace(turn_s=20 * HOUR_S)
        alice = await crew.hire("alice", work, pace=pace, claims=True)
        await eventually(lambda: len(alice.turns) == 1)
        await team.mailbox.send(LEAD, "Where are we?", sender="bob")
        await eventually(lambda: len(lead.turns) == 1)
        await team.approvals.ask_plan("My plan", by="alice")
        await anyio.sleep(1)
        return lead

    async def cancel(self, team: Team) -> None:
        """The turn of the old context ends, whatever it was about."""
        order = Control.new(action="cancel", sender=LEAD)
        await team.mailbox.send(LEAD, order.text(), sender=LEAD)
