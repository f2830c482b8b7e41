"""A task that a hook refuses was never there."""

from __future__ import annotations

import pytest

from bullpen.agents.work.add_task import add_task
from bullpen.errors import Conflict, NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("crew")
    return teams.open("crew")


class Hook:
    """A hook that refuses these subjects, and may do something else meanwhile."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    async def __call__(self, task: Task) -> str | None:
        self.asked.append(task.id)
        return "not today" if task.subject in self.refused else None


async def subjects(team: Team) -> list[tuple[str, str]]:
    return [(task.id, task.subject) for task in (await team.tasks.list()).tasks]


async def test_a_refused_task_burns_no_id_and_shows_nothing(team: Team) -> None:
    hook, before = Hook("No"), len(await team.events())
    with pytest.raises(Refused, match="not today") as refused:
        await add_task(team, Draft("No"), hook, by=LEAD)
    assert refused.value.reason == "hook_refused"
    assert len(await team.events()) == before
    assert (await add_task(team, Draft("Yes"), hook, by=LEAD)).id == "1"
    assert hook.asked == ["1", "1"]
    assert await subjects(team) == [("1", "Yes")]


async def test_a_hook_is_told_the_id_that_the_task_gets(team: Team) -> None:
    hook = Hook()
    ask = hook.__call__

    async def others_add_first(task: Task) -> str | None:
        if len(hook.asked) < 1:
            await team.tasks.add("Theirs", by=LEAD)
        return await ask(task)

    assert (await add_task(team, Draft("Mine"), others_add_first, by=LEAD)).id == "2"
    assert hook.asked == ["1", "2"]


async def test_a_hook_is_asked_in_the_end_although_others_add_tasks_all_the_time(
    team: Team,
) -> None:
    hook = Hook("Mine")

    async def too_late(task: Task) -> str | None:
        await team.tasks.add("Theirs", by=LEAD)
        hook.asked.append(task.id)
        return "not today" if len(hook.asked) > 3 else None

    with pytest.raises(Refused, match="not today"):
        await add_task(team, Draft("Mine"), too_late, by=LEAD)
    assert {subject for _, subject in await subjects(team)} == {"Theirs"}


async def test_without_hooks_a_task_is_one_commit(team: Team) -> None:
    before = len(await team.events())
    await add_task(team, Draft("One"), None, by=LEAD)
    assert [event.op for event in (await team.events())[before:]] == ["task.add"]


async def test_what_cannot_be_added_is_refused_before_a_hook_is_asked(team: Team) -> None:
    hook = Hook()
    with pytest.raises(NotFound):
        await add_task(team, Draft("One", owner="nobody"), hook, by=LEAD)
    assert hook.asked == []


async def test_another_first_id_is_a_conflict(team: Team) -> None:
    with pytest.raises(Conflict):
        await team.tasks.add_many([Draft("One")], by=LEAD, first="7")
    (planned,) = await team.tasks.add_many([Draft("One")], by=LEAD, dry=True)
    assert (planned.id, await subjects(team)) == ("1", [])
