"""Large teams: an update costs what it changes, and whoever only watches costs next to nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bullpen.protocol.agent import Usage
from bullpen.protocol.team import Limits
from bullpen.view.cards import MemberCard, TaskCard
from bullpen.view.scene import Scene
from bullpen.view.story import Story
from support.doors.tui_screens import opened, ready, until
from support.doors.tui_teams import small_team
from support.steps import steps

MEMBERS = 200
TASKS = 5000
FIRST_STEPS, UPDATE_STEPS = 1_000_000, 600_000
"""About two and a half times what they take: 120 for each task."""


def large_scene(scene: Scene) -> Scene:
    """A team of two hundred, with five thousand tasks."""
    members = tuple(
        MemberCard(
            name=f"member-{number}", lead=number == 0, color="blue", state="working",
            since_ms=scene.at_ms - number * 1000, detail=f"Read file-{number}.py",
            tasks=(str(number),), usage=Usage.new(input_tokens=number, cost_usd=number / 7),
            context=number / 200,
        )
        for number in range(MEMBERS)
    )  # fmt: skip
    tasks = tuple(
        TaskCard(
            id=str(number), subject=f"Task number {number}", description="",
            state="in_progress" if number < MEMBERS else "blocked", owner=f"member-{number}",
            since_ms=0, after=(str(number - 200),) if number >= 200 else (), waits_for=(),
        )
        for number in range(TASKS)
    )  # fmt: skip
    return replace(scene, members=members, tasks=tasks, limits=Limits.new())


def one_step_on(scene: Scene, turn: int) -> Scene:
    """The scene after each tenth member has done something."""
    members = [
        replace(card, detail=f"Bash step {turn}", context=(turn % 10) / 10)
        if number % 10 == turn % 10
        else card
        for number, card in enumerate(scene.members)
    ]
    return replace(scene, members=tuple(members), seq=scene.seq + 1)


@pytest.mark.parametrize("page", [None, "ctrl+t"], ids=["team", "tasks"])
async def test_two_hundred_members_are_updated_in_few_steps(
    tmp_path: Path, page: str | None
) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(120, 40)) as pilot:
        screen = await ready(pilot)
        screen.workers.cancel_group(screen, "following")
        assert screen.looked_at is not None
        scene = large_scene(screen.looked_at.scene)
        if page is not None:
            await pilot.press(page)
        steps(partial(screen.show, scene, Story()), at_most=FIRST_STEPS)
        await until(pilot, "member-3" if page is None else "Task number 3")
        for turn in range(20):
            scene = one_step_on(scene, turn)
            steps(partial(screen.show, scene, Story()), at_most=UPDATE_STEPS)
            await pilot.pause()
        if page is None:
            await until(pilot, "Bash step 1")


async def test_the_graph_of_many_tasks_is_drawn(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(120, 40)) as pilot:
        screen = await ready(pilot)
        screen.workers.cancel_group(screen, "following")
        assert screen.looked_at is not None
        screen.show(large_scene(screen.looked_at.scene), Story())
        await pilot.press("ctrl+t")
        await pilot.press("g")
        await until(pilot, "most effort")
