"""A large team in a browser: all its pages, updates, memory, jumps in the past.

`BULLPEN_WEB_SCALE=1` is the full size: 200 agents, 5,000 tasks, 50,000 messages, 10,000 updates.
How long it takes is judged in tests/timing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import expect

from bullpen.app.app import App
from bullpen.app.stores import open_store
from bullpen.doors.web.replay import Replay
from bullpen.protocol.changes import Change, Deliver, Event, PutMember, PutTask, PutTeam
from bullpen.protocol.names import LEAD
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team
from bullpen.testing.sample_records import always, config, member, message, task
from bullpen.view.scene import Scene
from support.doors.web_browser import Window, chromium, needs_chromium, window
from support.doors.web_stage import TEAM, hire, served
from support.steps import steps

pytestmark = pytest.mark.anyio

FULL = os.environ.get("BULLPEN_WEB_SCALE") == "1"
AGENTS, TASKS, MESSAGES, UPDATES = (200, 5000, 50_000, 10_000) if FULL else (30, 300, 1000, 30)
UPDATES = int(os.environ.get("BULLPEN_WEB_UPDATES", UPDATES))
EVENTS = 50_000 if FULL else 10_000

_AT_ONCE = 50
_MEMORY = 1.5


async def large(app: App, *, cwd: Path) -> Team:
    """A team of many, with a long past."""
    await app.teams.create(TEAM, description="Large")
    team = app.teams.open(TEAM)
    await team.agents.limit(by=LEAD, agents=AGENTS + 1, spawns_per_minute=10_000)
    for number in range(AGENTS):
        await hire(team, f"agent{number:03}", cwd=str(cwd))
    for begin in range(0, TASKS, 500):
        drafts = [
            Draft(f"Task {begin + each}", "", None, (f"@{each - 1}",) if each % 5 else (), None)
            for each in range(min(500, TASKS - begin))
        ]
        await team.tasks.add_many(drafts, by=LEAD)
    store = open_store(app.settings)
    for begin in range(0, MESSAGES, _AT_ONCE):
        letters = [
            Deliver(
                f"agent{(begin + each) % AGENTS:03}",
                message(f"m{begin + each}", sender=LEAD, text=f"Message {begin + each}"),
            )
            for each in range(_AT_ONCE)
        ]
        await store.commit(TEAM, always(*letters), actor=LEAD, op="mail.send")
    await store.aclose()
    return team


@needs_chromium
async def test_a_large_team_is_painted_and_followed_without_growing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, make=large) as stage,
        chromium() as browser,
        window(browser, stage) as tab,
    ):
        for path in ("/waiting", "/", "/tasks", "/messages"):
            await paint(tab, path)
        await tab.go("/tasks")
        await expect(tab.page.locator("#link")).to_have_text("live")
        for number in range(8):
            await follow(tab, stage.team, str(number * 5 + 1))
        before, after = await memory(tab, stage.team)
        assert tab.troubles == []
    assert after < before * _MEMORY


async def paint(tab: Window, path: str) -> None:
    await tab.go(path)
    await expect(tab.page.locator("main h1")).to_be_visible()


async def follow(tab: Window, team: Team, task_id: str) -> None:
    """Wait until a claim that was committed is on the screen."""
    await team.tasks.claim(task_id, by=f"agent{int(task_id) // 5:03}")
    await tab.page.locator(f'#column-in_progress > [id="task-{task_id}"]').wait_for()


async def memory(tab: Window, team: Team) -> tuple[int, int]:
    """The size of the page after a tenth of the updates, and after all of them."""
    sizes = []
    session = await tab.context.new_cdp_session(tab.page)
    for number in range(UPDATES):
        await team.tasks.edit("1", by=LEAD, subject=f"Number {number}")
        if number + 1 in (max(1, UPDATES // 10), UPDATES):
            card = tab.page.locator('[id="task-1"]')
            await expect(card).to_contain_text(f"Number {number}")
            await session.send("HeapProfiler.collectGarbage")
            sizes.append(int((await session.send("Runtime.getHeapUsage"))["usedSize"]))
    return sizes[0], sizes[1]


def test_a_jump_in_a_long_past_replays_a_small_part_of_it() -> None:
    replay = Replay(long_past())
    prepared = steps(replay.prepare, at_most=1_000_000_000)
    for number in range(20):
        at = (number * 7919 * 13) % EVENTS
        found: list[Scene] = []
        jump = steps(lambda at=at, found=found: found.append(replay.at(at)[0]))  # type: ignore[misc]
        assert jump < prepared / 2
        assert found[0].seq == max(1, at)


def long_past() -> list[Event]:
    names = [f"agent{number:03}" for number in range(AGENTS)]
    rows: list[Change] = [PutMember(member(name, isActive=True)) for name in names]
    raw = config(TEAM).raw
    team = PutTeam({key: value for key, value in raw.items() if key != "members"})
    time_at = "2026-11-15T12:00:00.000Z"
    events = [Event(seq=1, time=time_at, actor=LEAD, op="team.create", changes=(team, *rows))]
    for seq in range(2, EVENTS + 1):
        if seq % 10 == 0:
            change: Deliver | PutTask = PutTask(task(str(seq // 10), subject=f"Task {seq}"))
        else:
            change = Deliver(names[seq % AGENTS], message(f"m{seq}", text=f"Message {seq}"))
        events.append(Event(seq=seq, time=time_at, actor=LEAD, op="x", changes=(change,)))
    return events
