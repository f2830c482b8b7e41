"""A team whose machine sleeps, or whose clock is set: everybody is alive, nothing is done twice."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.lead_lease import LeadHold
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.agents.system import processes
from bullpen.errors import Conflict, Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import LeadLease
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from support.crews import Crew, Turn, eventually, new_team, simulate, simulated_ms

HOUR_S = 3600
JUMPS_S = [180, HOUR_S, 8 * HOUR_S, -HOUR_S]


class Clock:
    """The wall clock of a simulated machine. The clock for durations is the loop's."""

    def __init__(self) -> None:
        self.off_s = 0

    def __call__(self) -> int:
        return 1_800_000_000_000 + simulated_ms() + self.off_s * 1000


class Present(RosterView):
    """Everybody lives here: these agents have no processes."""

    def dead(self, *_: Any, **__: Any) -> str | None:
        return ""


class Elsewhere(RosterView):
    """Everybody is on another machine: there are only heartbeats."""

    def dead(self, *_: Any, **__: Any) -> str | None:
        return None


def played(folder: Path, body: Callable[[Crew, Clock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = Clock()
        async with Teams(MemoryStore(clock=clock), clock=clock) as teams:
            team = await new_team(teams)
            async with anyio.create_task_group() as group:
                await body(Crew(team, folder, group, clock=clock), clock)
                group.cancel_scope.cancel()

    simulate(run)


async def tended(roll: RosterView, seconds: float) -> list[str]:
    """Look on for so long, as whoever watches a team does."""
    lost: list[str] = []
    for _ in range(round(seconds * 2)):
        lost += await roll.tend(by=LEAD)
        await anyio.sleep(0.5)
    return lost


@pytest.mark.parametrize("view", [Present, Elsewhere])
@pytest.mark.parametrize("jump_s", JUMPS_S)
@pytest.mark.parametrize("after_s", [1.2, 3.3])
def test_a_task_stays_with_its_living_owner(
    tmp_path: Path, jump_s: int, after_s: float, view: type[RosterView]
) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        team, begun, said = crew.team, list[str](), list[str]()

        def work(name: str) -> Turn:
            async def turn(given: TurnInput, desk: Desk) -> str:
                if "claimed task" not in given.text:
                    return ""
                begun.append(name)
                attempt = desk.attempts["1"]
                await anyio.sleep(150)
                await team.tasks.done("1", by=name, attempt=attempt)
                said.append(name)
                return "I did it"

            return turn

        await team.tasks.add("One", by=LEAD)
        roll = view(team, clock=clock)
        await crew.hire("alice", work("alice"), pace=Pace(), claims=True)
        await eventually(lambda: begun == ["alice"])
        await crew.hire("bob", work("bob"), pace=Pace(), claims=True)
        assert await tended(roll, after_s) == []
        clock.off_s += jump_s
        assert await tended(roll, 200) == []
        assert (begun, said) == (["alice"], ["alice"])
        task = await team.tasks.get("1")
        assert (task.status, task.owner, task.facts.attempt) == ("completed", "alice", 1)

    played(tmp_path, body)


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_an_agent_that_is_alone_does_its_task_once(tmp_path: Path, jump_s: int) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        team, said = crew.team, list[object]()

        async def turn(given: TurnInput, desk: Desk) -> str:
            if "claimed task" not in given.text:
                return ""
            said.append("began")
            await anyio.sleep(9)
            # Not by the tool: nothing may use a thread where an hour takes no time.
            said.append(await desk.complete("1", report=None))
            desk.attempts.pop("1", None)
            return "done"

        await team.tasks.add("One", by=LEAD)
        await crew.hire("alice", turn, claims=True, pace=Pace())
        roll = Present(team, clock=clock)
        await tended(roll, 3)
        clock.off_s += jump_s
        await tended(roll, 60)
        assert len(said) == 2
        task = await team.tasks.get("1")
        assert (task.status, task.owner, task.facts.attempt) == ("completed", "alice", 1)

    played(tmp_path, body)


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_silent_owner_elsewhere_loses_its_task_all_the_same(tmp_path: Path, jump_s: int) -> None:
    """It takes as long as a lease longer at most, and never an hour because the clock was set."""

    async def body(crew: Crew, clock: Clock) -> None:
        team = crew.team

        async def turn(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep(10 * HOUR_S)
            return ""

        await team.tasks.add("Never done", by=LEAD)
        alice = await crew.hire("alice", turn, pace=Pace(beat_s=10 * HOUR_S), claims=True)
        roll = Elsewhere(team, clock=clock)
        await tended(roll, 5)
        assert len(alice.turns) == 1
        clock.off_s += jump_s
        assert await tended(roll, 110) == [], "after a gap nobody is judged"
        assert await tended(roll, 60) == ["alice"]
        assert (await team.tasks.get("1")).status == "pending"

    played(tmp_path, body)


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_member_without_a_process_loses_its_lease_in_time(tmp_path: Path, jump_s: int) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        team = crew.team
        await team.roster.join("guest", by=LEAD)
        await team.tasks.add("One", by=LEAD)
        await team.tasks.claim("1", by="guest", lease_s=300)
        roll = Present(team, clock=clock)
        await tended(roll, 5)
        clock.off_s += jump_s
        await tended(roll, 280)
        assert (await team.tasks.get("1")).status == "in_progress"
        await tended(roll, 30)
        assert (await team.tasks.get("1")).status == "pending"

    played(tmp_path, body)


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
def test_a_retry_comes_when_it_was_due_and_not_by_the_clock(tmp_path: Path, jump_s: int) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        turns: list[float] = []

        async def turn(given: TurnInput, desk: Desk) -> str:
            turns.append(anyio.current_time())
            if len(turns) == 1:
                raise Unavailable("broken once", remedy="Try again.")
            return "ok"

        await crew.hire("alice", turn, pace=Pace(retry_s=10.0))
        await crew.team.mailbox.send("alice", "WORK please", sender=LEAD)
        await eventually(lambda: len(turns) == 1)
        clock.off_s += jump_s
        await anyio.sleep(8)
        assert len(turns) == 1
        await anyio.sleep(4)
        assert len(turns) == 2
        assert turns[1] - turns[0] == pytest.approx(10, abs=1)

    played(tmp_path, body)


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
def test_a_timer_of_an_agent_goes_off_when_it_was_due(tmp_path: Path, jump_s: int) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        alice = await crew.hire("alice", pace=Pace())
        await anyio.sleep(1)
        alice.desk.wake_later(60, "Look at the build")
        clock.off_s += jump_s
        await anyio.sleep(58)
        assert alice.turns == []
        await anyio.sleep(4)
        assert len(alice.turns) == 1

    played(tmp_path, body)


# --- the lead lease


def lease(clock: Clock, left_s: float, *, host: str, pid: int, start: str | None) -> LeadLease:
    until_ms = clock() + round(left_s * 1000)
    return LeadLease.new(nonce="first", until_ms=until_ms, host=host, pid=pid, start=start)


def second(crew: Crew, clock: Clock) -> LeadHold:
    place = ProcessRecord.new(backend="watch", host=processes.host_name(), pid=7, start="s")
    return LeadHold(crew.team, nonce="second", place=place, clock=clock)


def test_a_living_process_of_this_machine_leads_also_after_a_sleep(tmp_path: Path) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        here = processes.host_name()
        pid = os.getpid()
        living = lease(clock, 60, host=here, pid=pid, start=processes.start_of(pid))
        await crew.team.agents.take_lead(living, by=LEAD)
        clock.off_s += 8 * HOUR_S
        with pytest.raises(Conflict, match=f"Process {pid} on {here} leads this team"):
            await second(crew, clock).take()
        dead = living.evolve(start="1-00000000")
        await crew.team.agents.take_lead(dead, by=LEAD)
        await second(crew, clock).take()

    played(tmp_path, body)


@pytest.mark.parametrize("skew_s", [-HOUR_S, HOUR_S])
def test_a_lead_on_a_machine_with_a_wrong_clock_leads_while_it_renews(
    tmp_path: Path, skew_s: int
) -> None:
    async def body(crew: Crew, clock: Clock) -> None:
        agents = crew.team.agents

        async def renew() -> None:
            for _ in range(4):
                there = lease(clock, 60 + skew_s, host="there", pid=1, start="s")
                await agents.take_lead(there, by=LEAD)
                await anyio.sleep(20)

        async with anyio.create_task_group() as group:
            group.start_soon(renew)
            await anyio.sleep(5)
            with pytest.raises(Conflict, match="Process 1 on there leads this team"):
                await second(crew, clock).take()
        began = anyio.current_time()
        await second(crew, clock).take()
        assert 20 < anyio.current_time() - began < 40, "it was silent for longer than it may be"

    played(tmp_path, body)
