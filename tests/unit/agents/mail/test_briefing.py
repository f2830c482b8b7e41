"""The briefing: what a reader is told about the team, in whole sentences."""

from __future__ import annotations

from bullpen.agents.mail.briefing import Briefing, briefing_text, changes_since
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


async def test_the_lead_is_told_whether_its_user_talks_with_it() -> None:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        alone = Briefing.of(await team.snapshot(), LEAD)
        assert "Finish" not in alone.whole()
        await team.agents.converse(True, by=LEAD)
        snapshot = await team.snapshot()
        talking = Briefing.of(snapshot, LEAD)
        assert "Call Finish only when they say that they are done." in talking.whole()
        assert "Your user is here" in (changes_since(alone, talking) or "")
        assert "Your user" not in (changes_since(talking, talking) or "")
        assert "When the goal is reached, call Finish." in (changes_since(talking, alone) or "")
        assert "Your user" not in briefing_text(snapshot, "ann")
