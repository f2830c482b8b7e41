"""Chores of a night: quiet hours, mail to a lead that is none, notices, and the merge queue."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from crews import Crew, Hired, eventually, new_team, simulate, simulated_ms
from test_foreman import SLOW, hangs

from bullpen.agents.drivers.base import Desk, TurnInput
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.times import iso
from bullpen.protocol.unattended import Unattended
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.team.teams import Teams
from bullpen.unattended.happenings import Happening
from bullpen.unattended.lead_mail import LeadMail
from bullpen.unattended.merging import Merging
from bullpen.unattended.notices import WAITING_MAX, Notices, Told
from bullpen.unattended.quiet import QuietHours
from bullpen.workspace.queue.running import Stepped


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
            assert told == ["quiet hours begin: everybody is paused"]
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
            assert told == ["quiet hours are over: everybody goes on"]
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

    simulate(body)


# ── the world outside ────────────────────────────────────────────────────────────────────────────


def happened(number: int, kind: str = "merged") -> Happening:
    return Happening(kind, "night", iso(number), f"thing {number}", seq=number)  # type: ignore[arg-type]


@asynccontextmanager
async def telling(folder: Path, *commands: Told) -> AsyncIterator[tuple[Notices, list[str]]]:
    notices = Notices(commands, cwd=str(folder), environ=os.environ, kept=folder / "kept.json")
    trouble: list[str] = []
    notices.tell = trouble.append
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        yield notices, trouble
        group.cancel_scope.cancel()


async def test_every_command_is_told_in_order_what_it_wants_to_hear(tmp_path: Path) -> None:
    all_of_it, some = Told("cat >> all"), Told("cat >> some", on=("given_up",))
    async with telling(tmp_path, all_of_it, some) as (notices, trouble):
        for number in range(1, 13):
            notices.hear(happened(number, "given_up" if number % 3 == 0 else "merged"))
        await notices.drain()
    rows = [json.loads(line) for line in (tmp_path / "all").read_text("utf-8").splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, 13))
    assert rows[0] == {
        "happening": "merged", "team": "night", "at": iso(1), "text": "thing 1", "seq": 1,
    }  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "some").read_text("utf-8").splitlines()]
    assert [row["seq"] for row in rows] == [3, 6, 9, 12]
    assert trouble == []
    assert Notices([], cwd="/", environ={}, kept=tmp_path / "kept.json").told_until() == 12


async def test_a_command_that_fails_or_hangs_is_told_and_holds_up_nobody(tmp_path: Path) -> None:
    hanging = Told("sleep 600 & echo $! > child; wait", timeout_s=0.5)
    failing = Told("cat > /dev/null; echo the chat is down; exit 3")
    async with telling(tmp_path, hanging, failing, Told("cat >> fine")) as (notices, trouble):
        began = time.monotonic()
        notices.hear(happened(1))
        await notices.drain()
        assert time.monotonic() - began < 10
    assert sorted(trouble) == [
        f"the notice `{failing.run}` failed with 3: the chat is down",
        f"the notice `{hanging.run}` took longer than 0.5 s and was ended",
    ]
    assert (tmp_path / "fine").exists()
    child = int((tmp_path / "child").read_text("utf-8"))

    def is_gone() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{child}/stat").read_text("utf-8").split()[2] == "Z"

    await eventually(is_gone)


async def test_a_command_that_is_too_slow_loses_the_oldest_and_says_so(tmp_path: Path) -> None:
    notices = Notices([Told("cat >> all")], cwd=str(tmp_path), environ=os.environ,
                      kept=tmp_path / "kept.json")  # fmt: skip
    trouble: list[str] = []
    notices.tell = trouble.append
    for number in range(WAITING_MAX + 7):
        notices.hear(happened(number))
    # What is left is told from the oldest on; the first of it says what was lost.
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        await eventually(lambda: _lines(tmp_path / "all") > 0 and bool(trouble))
        group.cancel_scope.cancel()
    first = json.loads((tmp_path / "all").read_text("utf-8").splitlines()[0])
    assert first["seq"] == 7
    assert trouble[0].startswith("7 notices were dropped")


async def test_what_was_not_told_before_a_kill_is_told_afterwards(tmp_path: Path) -> None:
    stuck = Told("cat >> all; test $(wc -l < all) -lt 3 || sleep 600", timeout_s=900)
    notices = Notices([stuck], cwd=str(tmp_path), environ=os.environ, kept=tmp_path / "kept.json")
    for number in range(1, 6):
        notices.hear(happened(number))
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        await eventually(lambda: _lines(tmp_path / "all") == 3)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(ended_in, tmp_path)
    again = Notices([stuck], cwd=str(tmp_path), environ=os.environ, kept=tmp_path / "kept.json")
    assert again.told_until() == 2, "the third was being told: it is told again"


def ended_in(folder: Path) -> int:
    """End what sleeps in a folder of this test; how many there were."""
    ended = 0
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            here = os.readlink(f"/proc/{pid}/cwd") == str(folder)
            if here and b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.killpg(os.getpgid(pid), signal.SIGKILL)
                ended += 1
        except OSError:
            continue
    return ended


def _lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n") if path.exists() else 0


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
