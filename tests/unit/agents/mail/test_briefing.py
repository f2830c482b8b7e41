"""The briefing: what a reader is told about the team, in whole sentences."""

from __future__ import annotations

from bullpen.agents.mail.briefing import briefing_text
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams


async def test_a_list_of_other_tasks_is_announced_only_if_there_are_any() -> None:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        assert "open tasks (" not in briefing_text(await team.snapshot(), "ann")
        await team.tasks.add("One", by=LEAD)
        text = briefing_text(await team.snapshot(), "ann")
        assert "Other open tasks (0 of 1 tasks are done):\n- #1 One (pending)\n" in text
        await team.tasks.done("1", by=LEAD)
        text = briefing_text(await team.snapshot(), "ann")
    assert "No other open tasks (1 of 1 tasks are done).\n</team-digest>" in text


async def test_the_lead_is_told_once_what_it_is() -> None:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        text = briefing_text(await teams.open("alpha").snapshot(), LEAD)
    assert text.startswith("<team-digest>\nYou are the lead of team alpha. The time is ")
