"""How full an agent's context is: from its driver to its heartbeat, and to whoever looks."""

from __future__ import annotations

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.doors.cli.agents.agents_table import agent_json
from support.crews import Crew, eventually


@pytest.mark.parametrize(
    ("tokens", "window", "shown"),
    [(4_200, 10_000, 0.42), (12_000, 10_000, 1.0), (5, 0, None), (-1, 10, None)],
)
async def test_a_heartbeat_says_how_full_the_context_is_and_nothing_that_cannot_be(
    crew: Crew, tokens: int, window: int, shown: float | None
) -> None:
    """R-6.1"""

    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.filled(tokens, window=window)
        return "done"

    async def is_told() -> bool:
        beat = (await crew.team.agents.presence()).get("alice")
        return beat is not None and beat.state == "idle" and beat.context == shown

    alice = await crew.hire("alice", turn, prompt="Look at the parser")
    await eventually(lambda: len(alice.turns) == 1)
    await eventually(is_told)
    _, views = await RosterView(crew.team).look()
    (seen,) = [view for view in views if view.name == "alice"]
    assert agent_json(seen)["context"] == shown
