"""Programs of others as agents in processes of their own: start, mail, model, leftovers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.system import processes
from bullpen.errors import StartFailed
from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.offices import TEAM, Place, in_state, kill, view

AGENT = str(Path(__file__).parents[3] / "support/agents/tiny_agent.py")
PYTHON = sys.executable
HANGS = (PYTHON, "-c", "open('told.jsonl', 'w').write('\"begun\"'); import time; time.sleep(9999)")
"""A program that never answers, as one that waits for a login."""
START_S = 120.0
SOON_S = 30.0


async def spawn(
    place: Place,
    name: str,
    part: str = "",
    *,
    command: tuple[str, ...] | None = None,
    ready_s: float = START_S,
    **fields: Any,
) -> Spawned:
    """Spawn the tiny agent in this part, or another command."""
    spec = await place.app.resolve(
        SpawnRequest(
            driver="acp",
            backend="subprocess",
            cwd=str(place.project),
            command=command or (PYTHON, AGENT, part),
            claims=False,
            **fields,
        )
    )
    return await place.supervisor.spawn(name, spec, by=LEAD, ready_s=ready_s)


async def members(place: Place) -> list[str]:
    return [member.name for member in await place.team.roster.list()]


def told(place: Place, what: str) -> bool:
    """Whether the agent has written down that it was asked for something, or did it."""
    path = place.project / "told.jsonl"
    return path.exists() and f'"{what}"' in path.read_text("utf-8")


async def test_mail_to_a_program_that_never_gets_ready_waits_and_nothing_of_it_is_left(
    place: Place,
) -> None:
    """R-2.1g: one that hangs at its start is given no mail."""
    failed: list[StartFailed] = []

    async def start() -> None:
        try:
            await spawn(place, "alice", command=HANGS, ready_s=SOON_S, prompt="Begin")
        except StartFailed as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await eventually(lambda: told(place, "begun"), within_s=SOON_S)
        await place.team.mailbox.send("alice", "Hello", sender=LEAD)
    assert "not ready in time" in failed[0].message
    (waits,) = (await place.team.mailbox.read("alice")).entries
    assert (waits.message.text, waits.state) == ("Hello", "stored")
    (told_lead,) = (await place.team.mailbox.read(LEAD)).entries
    assert "alice could not be started" in told_lead.message.text
    assert await members(place) == [LEAD]
    assert place.processes() == []


async def test_a_program_that_never_starts_the_teams_tools_fails_its_turn_and_says_so(
    place: Place,
) -> None:
    """R-7.1: start with an adapter lacking task tools: error or declared fallback.

    A program of which nothing is known may start them with its first prompt.
    """
    await spawn(place, "alice", "no server", ready_s=SOON_S, prompt="Begin")

    def says_so() -> bool:
        found = place.home.glob("agents/*/alice/transcript.jsonl")
        return any("took its turn without the team's tools" in each.read_text() for each in found)

    await eventually(says_so, within_s=60)
    assert told(place, "prompt")


async def test_a_program_that_is_ready_gets_its_mail_and_shows_its_driver(place: Place) -> None:
    await spawn(place, "alice", "plain", prompt="Begin")

    async def has_read_it() -> bool:
        box = await place.team.mailbox.read("alice")
        return [entry.state for entry in box.entries] == ["seen"]

    await eventually(has_read_it, within_s=60)
    assert (await view(place, "alice")).driver == "acp"


class TestModels:
    async def test_a_model_that_is_not_on_offer_is_a_failed_start_with_both_names(
        self, place: Place
    ) -> None:
        """R-5.5: spawn fails with both names."""
        with pytest.raises(StartFailed, match=r"the model huge, but .* uses big"):
            await spawn(place, "alice", "plain", model="huge")
        assert await members(place) == [LEAD]
        assert place.processes() == []

    async def test_a_program_that_uses_another_model_fails_for_good(self, place: Place) -> None:
        """R-5.5: checked against the program's own report on the first turn."""
        await spawn(place, "alice", "other model", model="small", prompt="Begin")
        ended = await in_state(place, "alice", "failed", within_s=60)
        assert ended.cause is not None
        assert "the model small" in ended.cause
        assert "tiny-large-20260101" in ended.cause


class TestLeftovers:
    """A program and its commands outlive a kill -9 of their runner; they carry its nonce."""

    async def left_over(self, place: Place) -> str:
        """Kill a runner in mid-turn; the nonce of what it leaves."""
        await spawn(place, "alice", "careless", prompt="Begin")
        await eventually(lambda: told(place, "child"), within_s=60)
        nonce = await place.nonce("alice")
        await kill(place, "alice")
        assert processes.carriers(nonce)
        return nonce

    async def test_the_doctor_finds_and_ends_them(self, place: Place) -> None:
        nonce = await self.left_over(place)
        found = await place.app.examine(TEAM, fix=False)
        assert [each.kind for each in found] == ["lost_agent"]
        assert processes.carriers(nonce)
        mended = await place.app.examine(TEAM, fix=True)
        assert {each.kind for each in mended} == {"lost_agent", "orphan_process"}
        assert all(each.fixed for each in mended)
        assert processes.carriers(nonce) == []

    async def test_resuming_ends_them_before_it_starts_anew(self, place: Place) -> None:
        nonce = await self.left_over(place)
        assert [each.name for each in await place.supervisor.resume(by=LEAD)] == ["alice"]
        assert processes.carriers(nonce) == []
