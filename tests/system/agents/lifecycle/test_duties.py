"""What the runner sees to between turns: tasks, reminders, limits, the lead and its goal."""

from __future__ import annotations

from bullpen.protocol.names import LEAD
from support.crews import Crew, eventually


async def test_a_lead_with_a_goal_is_reminded_to_finish_and_ends_when_nothing_moves(
    crew: Crew,
) -> None:
    lead = await crew.hire(LEAD, options={"until_done": True}, prompt="The goal")
    await crew.team.tasks.add("Open", by=LEAD)
    await eventually(lambda: lead.ended is not None, within_s=30)
    assert sum("Everyone is idle" in text for text in lead.turns) == 2
