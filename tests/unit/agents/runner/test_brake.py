"""What becomes of an agent whose turns are ended because it repeats itself, in simulated time."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.names import LEAD
from support.crews import Crew

from .test_quiet import in_simulation

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)
HOUR_S = 3600


def refusing(made: list[str]) -> object:
    """A turn of a program that makes the same refused call every second, for ever."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        while True:
            refused = {"taskId": "99", "status": "completed"}
            text, _ = await call(toolbox(desk), "TaskUpdate", refused, desk)
            made.append(text)
            await anyio.sleep(1)

    return turn


def test_a_program_that_repeats_itself_loses_its_turns_and_then_its_task(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        made: list[str] = []
        await crew.hire(LEAD, pace=PACE)
        alice = await crew.hire("alice", refusing(made), pace=PACE, claims=True)  # type: ignore[arg-type]
        await crew.team.tasks.add("One", by=LEAD)
        await anyio.sleep(HOUR_S)
        ends = alice.told("end")
        assert len(ends) == 1 + PACE.retries_max
        assert all("(repeats)" in end["failure"] and "TaskUpdate" in end["failure"] for end in ends)
        assert len(made) <= 12 * len(ends), "the program has 5 seconds to end"
        assert "Your turn ends now" in made[5]
        facts = (await crew.team.agents.get("alice"))[1]
        assert (facts.end, facts.failure) == ("failed", "repeats")
        task = await crew.team.tasks.get("1")
        assert (task.status, task.owner) == ("pending", None)
        box = await crew.team.mailbox.read(LEAD, history=True)
        assert any("(repeats)" in entry.message.text for entry in box.entries)

    in_simulation(tmp_path, body)


def test_the_limit_of_requests_is_the_teams(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        async def turn(given: TurnInput, desk: Desk) -> str:
            for _ in range(50):
                desk.next_request()
            return ""

        await crew.team.agents.limit(by=LEAD, requests=12)
        alice = await crew.hire("alice", turn, pace=PACE, prompt="Begin.")
        await anyio.sleep(10)
        assert "(requests): it made 12 model requests" in alice.told("end")[0]["failure"]

    in_simulation(tmp_path, body)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_goal_that_is_reached_ends_the_lead_whatever_its_program_does(
    tmp_path: Path, goes_on: bool
) -> None:
    async def body(crew: Crew) -> None:
        async def turn(given: TurnInput, desk: Desk) -> str:
            await call(toolbox(desk), "Finish", {"summary": "All done."}, desk)
            assert desk.turn_is_over
            if goes_on:
                await anyio.sleep_forever()
            return "I finished."

        lead = await crew.hire(LEAD, turn, pace=PACE, options={UNTIL_DONE: True})
        await crew.team.mailbox.send(LEAD, "Begin.", sender=LEAD)
        await anyio.sleep(HOUR_S)
        assert lead.ended is not None and lead.ended.end == "finished"
        assert [end["failure"] for end in lead.told("end")] == [None]

    in_simulation(tmp_path, body)


def test_saying_twice_that_the_goal_is_reached_is_one_event(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        for _ in range(2):
            await crew.team.agents.finish(by=LEAD, summary="All done.")
            await anyio.sleep(1)
        ops = [event.op for event in await crew.team.events()]
        assert ops.count("team.finish") == 1
        await crew.team.agents.finish(by=LEAD, summary="Now really.")
        result = await crew.team.agents.result()
        assert result is not None and result.summary == "Now really."

    in_simulation(tmp_path, body)
