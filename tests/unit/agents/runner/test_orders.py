"""Orders are obeyed once, in their order, whatever turn they interrupt."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.errors import Unavailable
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.crews import Crew, Hired, eventually, new_team, simulate, simulated_ms

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)


async def give(team: Team, *actions: str) -> None:
    for action in actions:
        order = Control.new(action=action, sender=LEAD, timestamp=iso(simulated_ms()))
        await team.mailbox.send("ann", order.text(), sender=LEAD)


def obeyed(hired: Hired) -> list[str]:
    return [row["action"] for row in hired.told("order")]


@pytest.mark.parametrize("between_s", [0.0, 0.01, 1.0])
def test_a_resume_right_behind_a_pause_is_obeyed_after_it(tmp_path: Path, between_s: float) -> None:
    async def body() -> None:
        async def works(given: TurnInput, desk: Desk) -> str:
            await anyio.sleep(10)
            return "Done."

        teams = Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms)
        team = await new_team(teams)
        async with anyio.create_task_group() as group:
            ann = await Crew(team, tmp_path, group, clock=simulated_ms).hire(
                "ann", works, pace=PACE
            )
            await team.mailbox.send("ann", "Work", sender=LEAD)
            await eventually(lambda: len(ann.turns) == 1, every_s=1.0)
            await give(team, "pause")
            await anyio.sleep(between_s)
            await give(team, "resume")
            await eventually(lambda: len(ann.turns) == 2, every_s=1.0)
            assert obeyed(ann) == ["pause", "resume"]
            group.cancel_scope.cancel()

    simulate(body)


@pytest.mark.parametrize("order", ["pause", "resume", "cancel"])
def test_an_order_that_could_not_be_marked_is_marked_later_and_obeyed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    async def body() -> None:
        teams = Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms)
        team = await new_team(teams)
        mark = team.mailbox.mark
        refused: list[str] = []

        async def fails(name: str, *given: object) -> int:
            if name == "ann" and len(refused) < 3:
                refused.append(name)
                raise Unavailable("The store is away.", remedy="Wait until it is back.")
            return await mark(name, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(team.mailbox, "mark", fails)
        async with anyio.create_task_group() as group:
            ann = await Crew(team, tmp_path, group, clock=simulated_ms).hire("ann", pace=PACE)
            await give(team, order)

            async def seen() -> bool:
                return not (await team.mailbox.read("ann")).unread

            await eventually(seen, every_s=1.0)
            assert (obeyed(ann), len(refused)) == ([order], 3)
            group.cancel_scope.cancel()

    simulate(body)
