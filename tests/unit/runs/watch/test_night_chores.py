"""Chores of a night: quiet hours, mail to a lead that is none, notices, and the merge queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.team import MergeSettings, Unattended
from bullpen.runs.watch.lead_mail import LeadMail
from bullpen.runs.watch.merges import Merging
from bullpen.runs.watch.quiet_hours import QuietHours
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.workspace.merge_queue.queue import Stepped
from support.crews import Crew, Hired, new_team, simulate, simulated_ms

from .test_foreman import SLOW, hangs


def clock(ms: int) -> datetime:
    """Simulated time begins at 20:00."""
    begins = datetime(2031, 5, 1, 20, 0, tzinfo=UTC)
    return begins + timedelta(milliseconds=ms - 1_000_000_000)


@asynccontextmanager
async def simulated_crew(folder: Path) -> AsyncIterator[Crew]:
    async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
        team = await new_team(teams)
        async with anyio.create_task_group() as group:
            yield Crew(team, folder, group, clock=simulated_ms)
            group.cancel_scope.cancel()


def quiet_hours(team: Team) -> QuietHours:
    async def order(name: str, action: str, why: str) -> None:
        order = Control.new(action=action, sender=LEAD, reason=why, timestamp=iso(simulated_ms()))
        await team.mailbox.send(name, order.text(), sender=LEAD)

    return QuietHours(team, order, clock=simulated_ms, shown=clock, every_s=60)


async def watched(chore: QuietHours, hours: float, told: list[str]) -> None:
    with anyio.move_on_after(hours * 3600):
        await chore.run(told.append)


def test_in_quiet_hours_everybody_is_paused_and_goes_on_afterwards(tmp_path: Path) -> None:
    async def body() -> None:
        turns: list[tuple[str, int]] = []

        async def works(given: TurnInput, desk: Desk) -> str:
            turns.append((desk.agent, clock(simulated_ms()).hour))
            await anyio.sleep(1800)
            return ""

        async with simulated_crew(tmp_path) as crew:
            team = crew.team
            await team.origins.work_by(Unattended.new(quiet=["22:00-06:00"]), by=LEAD)
            hired: list[Hired] = [await crew.hire("ann", works, pace=SLOW)]
            told: list[str] = []
            async with anyio.create_task_group() as group:
                group.start_soon(watched, quiet_hours(team), 3.0, told)
                for _ in range(3):
                    await team.mailbox.send("ann", "more", sender="ann")
                    await team.mailbox.send("ann", "more", sender=LEAD)
                    await anyio.sleep(3300)
            assert told == ["quiet hours begin: all agents are paused"]
            assert hired[0].desk.activity.state == "waiting"
            assert (await team.agents.config()).facts.quiet_ms is not None
            # Another process watches from here, and somebody comes inside the quiet hours.
            hired.append(await crew.hire("bob", works, pace=SLOW))
            for name in ("ann", "bob"):
                await team.mailbox.send(name, "more", sender=LEAD)
            told.clear()
            before = len(turns)
            await watched(quiet_hours(team), 1.0, told)
            assert len([who for who, _ in turns[before:] if who == "ann"]) == 0
            assert all(each.desk.activity.state == "waiting" for each in hired)
            # Nobody watches when they end; whoever does next lets them go on.
            await anyio.sleep(8 * 3600)
            assert all(each.desk.activity.state == "waiting" for each in hired)
            await watched(quiet_hours(team), 1.0, told)
            assert told == ["quiet hours are over: all agents are resumed"]
            assert {who for who, hour in turns[before:] if hour >= 6} == {"ann", "bob"}
            assert (await team.agents.config()).facts.quiet_ms is None

    simulate(body)


def test_who_was_paused_by_a_person_is_not_woken_by_the_clock(tmp_path: Path) -> None:
    async def body() -> None:
        async with simulated_crew(tmp_path) as crew:
            ann = await crew.hire("ann", pace=SLOW)
            order = Control.new(action="pause", sender=LEAD, timestamp=iso(simulated_ms()))
            await crew.team.mailbox.send("ann", order.text(), sender=LEAD)
            await watched(quiet_hours(crew.team), 2.0, [])
            assert ann.desk.activity.detail == "paused by team-lead"

    simulate(body)


def test_who_asks_a_lead_that_is_none_is_answered_as_long_as_the_team_runs(tmp_path: Path) -> None:
    async def body() -> None:
        async with simulated_crew(tmp_path) as crew:
            await crew.hire("ann", hangs, pace=SLOW, claims=True)
            await crew.team.tasks.add("One", by=LEAD)
            await anyio.sleep(5)
            async with anyio.create_task_group() as group:
                group.start_soon(LeadMail(crew.team).run, list[str]().append)
                await anyio.sleep(60)
                await crew.team.mailbox.send(LEAD, "Which way?", sender="ann")
                await anyio.sleep(60)
                group.cancel_scope.cancel()
            box = await crew.team.mailbox.read("ann")
            assert any("Decide" in entry.message.text for entry in box.entries)

    simulate(body)


def test_who_asks_a_lead_that_is_none_is_told_so_once(tmp_path: Path) -> None:
    async def body() -> None:
        async with simulated_crew(tmp_path) as crew:
            team = crew.team
            await crew.hire("ann", hangs, pace=SLOW, claims=True)
            await crew.hire("bob", pace=SLOW)
            await team.tasks.add("One", by=LEAD)
            await anyio.sleep(5)
            mail = LeadMail(team)
            await team.mailbox.send(LEAD, "Which way?", sender="ann")
            await team.mailbox.send(LEAD, "Done, by the way.", sender="bob")
            assert await mail.look() == ["ann"], "bob has nothing to wait for"
            await team.mailbox.send(LEAD, "But which?", sender="ann")
            assert await mail.look() == [], "once for each attempt at a task"
            assert (await team.mailbox.read(LEAD)).unread == ()
            box = await team.mailbox.read("ann")
            assert sum("Decide" in entry.message.text for entry in box.entries) == 1
            await team.tasks.delete("1", by=LEAD, voice="human")
            await team.mailbox.send(LEAD, "And now?", sender="ann")
            assert await mail.look() == []
            assert not mail._answered, "what was answered is not remembered for ever"

    simulate(body)


def test_an_answer_that_could_not_be_stored_is_given_when_the_store_is_back(tmp_path: Path) -> None:
    async def body() -> None:
        async with simulated_crew(tmp_path) as crew:
            team = crew.team
            await crew.hire("ann", hangs, pace=SLOW, claims=True)
            await team.tasks.add("One", by=LEAD)
            await anyio.sleep(5)
            mail = LeadMail(team)
            await team.mailbox.send(LEAD, "Which way?", sender="ann")
            for lost in (False, True):
                with away(team, lost=lost), pytest.raises(Unavailable):
                    await mail.look()
            assert await mail.look() == ["ann"]
            box = await team.mailbox.read("ann")
            assert sum("Decide" in entry.message.text for entry in box.entries) == 1

    simulate(body)


@contextmanager
def away(team: Team, *, lost: bool = False) -> Iterator[None]:
    """No message can be sent, or, if `lost`, nobody is told that it was."""
    send = team.mailbox.send

    async def fails(*args: Any, **kwargs: Any) -> None:
        if lost:
            await send(*args, **kwargs)
        raise Unavailable("The store is away.", remedy="Wait until it is back.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team.mailbox, "send", fails)
        yield


def test_who_could_not_be_told_that_quiet_hours_are_over_is_told_later(tmp_path: Path) -> None:
    async def body() -> None:
        async with simulated_crew(tmp_path) as crew:
            team = crew.team
            await team.origins.work_by(Unattended.new(quiet=["20:00-21:00"]), by=LEAD)
            ann = await crew.hire("ann", pace=SLOW)
            chore = quiet_hours(team)
            await watched(chore, 0.5, [])
            assert state_of(ann) == "waiting"
            await anyio.sleep(3600)
            with away(team), pytest.raises(Unavailable):
                await chore.run(list[str]().append)
            assert (await team.agents.config()).facts.quiet_ms is not None, "it is not over yet"
            await watched(chore, 0.5, [])
            assert state_of(ann) == "idle"

    simulate(body)


def state_of(hired: Hired) -> str:
    return hired.desk.activity.state


# ── the merge queue ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "stops", [Unavailable("The disk is full."), Stepped(held="README is changed")]
)
def test_what_is_in_the_way_of_a_merge_is_told_once_and_tried_again(
    stops: Unavailable | Stepped,
) -> None:
    async def body() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            await team.merges.configure(
                MergeSettings.new(repository="/x", target="main"), by=LEAD, voice="human"
            )
            tries: list[float] = []

            async def step(settings: MergeSettings) -> Stepped | None:
                tries.append(anyio.current_time())
                if len(tries) > 8:
                    return Stepped(merged=["1"]) if len(tries) == 9 else None
                if isinstance(stops, Unavailable):
                    raise stops
                return stops

            merging, told = Merging(team, step, quiet=lambda: False), list[str]()
            with anyio.move_on_after(600):
                await merging.run(told.append)
            assert len(told) == 1
            assert told[0].startswith("merging waits: ")
            gaps = [b - a for a, b in pairwise(tries[:9])]
            assert gaps == sorted(gaps), "it asks less and less often"
            assert gaps[-1] <= 60
            assert merging.state().trouble is None

    simulate(body)


def test_a_command_after_a_merge_that_fails_is_told() -> None:
    async def body() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            await team.merges.configure(
                MergeSettings.new(repository="/x", target="main"), by=LEAD, voice="human"
            )
            steps = [Stepped(merged=["1"], trouble="`git push` failed"), None]

            async def step(settings: MergeSettings) -> Stepped | None:
                return steps.pop(0) if steps else None

            told: list[str] = []
            with anyio.move_on_after(60):
                await Merging(team, step, quiet=lambda: False).run(told.append)
            assert told == ["`git push` failed"]

    simulate(body)


def test_a_target_that_is_gone_is_trouble_for_good_and_quiet_hours_merge_nothing() -> None:
    async def body() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            await team.merges.configure(
                MergeSettings.new(repository="/x", target="main"), by=LEAD, voice="human"
            )

            async def step(settings: MergeSettings) -> Stepped | None:
                raise Refused("There is no branch.", reason="no_target")

            quiet = True
            merging = Merging(team, step, quiet=lambda: quiet)
            with anyio.move_on_after(60):
                await merging.run(lambda _: None)
            assert merging.state().trouble is None
            quiet = False
            with anyio.move_on_after(60):
                await merging.run(lambda _: None)
            assert merging.state().for_good

    simulate(body)
