"""A task in progress is shown by its active form, if it has one."""

from __future__ import annotations

from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.view.agent_words import subjects_of
from bullpen.view.cards import TaskCard
from bullpen.view.scene import scene_of
from bullpen.view.story import story_of


async def cards(team: Team) -> list[TaskCard]:
    return list(scene_of(story_of(await team.events()), now_ms=0).tasks)


async def test_screens_say_what_is_being_done_while_it_is_being_done() -> None:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        await team.tasks.add("Paint the wall", by=LEAD, active_form="Painting the wall")
        await team.tasks.add("Rest", by=LEAD)
        for task_id, shown in (("1", "Painting the wall"), ("2", "Rest")):
            before = subjects_of(await team.snapshot())[task_id]
            await team.tasks.claim(task_id, by="ann", also=True)
            found = next(card for card in await cards(team) if card.id == task_id)
            assert subjects_of(await team.snapshot())[task_id] == shown
            assert (found.subject, found.activity or found.subject) == (before, shown)
        await team.tasks.done("1", by="ann")
        assert subjects_of(await team.snapshot())["1"] == "Paint the wall"
        assert (await cards(team))[0].activity is None
