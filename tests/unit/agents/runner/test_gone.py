"""A team that is missing for a moment is not a deleted one."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.pace import Pace
from bullpen.errors import NotFound, Unreadable
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Entry
from support.crews import Crew, Hired, eventually

PACE = Pace(beat_s=0.05, gather_s=0.5, retry_s=0.05, reply_s=5.0, place_look_s=1.0)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "home" / "teams" / "alpha" / "config.json"


def troubles(agent: Hired) -> int:
    return len(agent.told("trouble"))


async def test_a_file_that_is_away_for_a_moment_ends_nobody(crew: Crew, config: Path) -> None:
    """Other programs replace it by removing it first."""
    alice = await crew.hire("alice", pace=PACE)
    aside = config.with_suffix(".aside")
    os.rename(config, aside)
    alice.runner._control.wake()
    await anyio.sleep(0.5)
    os.rename(aside, config)
    await eventually(lambda: troubles(alice) > 0)
    await crew.team.mailbox.send("alice", "Are you there?", sender=LEAD)
    await eventually(lambda: any("Are you there?" in text for text in alice.turns))
    await anyio.sleep(1.2)
    assert alice.ended is None


async def test_a_record_that_is_missing_in_a_team_that_is_there_ends_nobody(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await crew.hire("alice", pace=PACE)
    unread, missing = alice.desk.unread, [NotFound("It is missing.")] * 3

    async def not_found_first() -> object:
        if missing:
            raise missing.pop()
        return await unread()

    monkeypatch.setattr(alice.desk, "unread", not_found_first)
    alice.runner._control.wake()
    await crew.team.mailbox.send("alice", "Are you there?", sender=LEAD)
    await eventually(lambda: any("Are you there?" in text for text in alice.turns))
    assert alice.ended is None


async def test_what_stays_missing_ends_the_agent_and_is_named(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await crew.hire("alice", pace=PACE)

    async def never_found() -> object:
        raise NotFound("Message 'm1' does not exist.")

    monkeypatch.setattr(alice.desk, "unread", never_found)
    alice.runner._control.wake()
    await eventually(lambda: alice.ended is not None)
    assert alice.ended == Ended("lost", "Message 'm1' does not exist.")


async def test_an_agent_that_was_removed_ends_after_a_second_look(crew: Crew) -> None:
    alice = await crew.hire("alice", pace=PACE)
    await crew.team.roster.remove("alice", by=LEAD)
    await eventually(lambda: alice.ended is not None)
    assert alice.ended == Ended("lost", "'alice' was removed from team 'alpha'.")


async def test_a_start_waits_for_a_team_that_another_program_is_writing(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread, unreadable = RunnerDesk.unread, [Unreadable("config.json", "it is cut off")] * 3

    async def readable_later(desk: RunnerDesk) -> tuple[Entry, ...]:
        if unreadable:
            raise unreadable.pop()
        return await unread(desk)

    monkeypatch.setattr(RunnerDesk, "unread", readable_later)
    alice = await crew.hire("alice", pace=PACE)
    await eventually(lambda: bool(alice.told("ready")))
    assert alice.ended is None


async def test_a_start_waits_no_longer_than_it_says(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(desk: RunnerDesk) -> tuple[Entry, ...]:
        raise Unreadable("config.json", "it is cut off")

    monkeypatch.setattr(RunnerDesk, "unread", never)
    alice = await crew.hire("alice", pace=Pace(start_s=0.5))
    await eventually(lambda: alice.ended is not None)
    assert alice.ended is not None
    assert "it is cut off" in (alice.ended.cause or "")
