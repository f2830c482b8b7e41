"""Pictures of every page, as text: what somebody sees is what was meant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.doors.tui_screens import compare, opened, ready, text_of, until
from support.doors.tui_teams import small_team

PAGES = {"members": "1", "tasks": "2", "messages": "3", "waiting": "4", "log": "5"}
SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day are the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_page_shows_the_team(tmp_path: Path, size: tuple[int, int]) -> None:
    await small_team(tmp_path)
    wide = f"{size[0]}x{size[1]}"
    async with opened(tmp_path, size=size) as pilot:
        await ready(pilot)
        for page, key in PAGES.items():
            await pilot.press(key)
            await pilot.pause()
            compare(pilot, f"{page}-{wide}")
        await pilot.press("2", "g")
        await pilot.pause()
        compare(pilot, f"graph-{wide}")
        await pilot.press("4", "down")
        await until(pilot, "Measure it with time.")
        compare(pilot, f"plan-{wide}")


async def test_what_opens_above_a_page(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press("down", "enter")
        await until(pilot, "Its transcript is on")
        await until(pilot, "12.4k")
        compare(pilot, "member-80x24")
        await pilot.press("escape", "question_mark")
        await until(pilot, "Keys")
        await until(pilot, "Pages")
        compare(pilot, "help-80x24")
        await pilot.press("escape", "s")
        await until(pilot, "Stop alice?")
        compare(pilot, "stop-80x24")


async def test_a_terminal_without_unicode_gets_none(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, plain=True) as pilot:
        await ready(pilot)
        for keys in (["1"], ["2"], ["g"], ["3"], ["4"], ["5"], ["m"], ["escape", "question_mark"]):
            await pilot.press(*keys)
            await pilot.pause()
            shown = text_of(pilot)
            assert shown.isascii(), shown
        await pilot.press("escape", "2")
        await pilot.pause()
        compare(pilot, "plain-graph-80x24")


async def test_without_a_team_it_says_how_to_get_one(tmp_path: Path) -> None:
    async with opened(tmp_path, team=None) as pilot:
        await until(pilot, "There is no team yet.")
        shown = text_of(pilot)
        assert "bullpen demo" in shown
        assert "bullpen init" in shown
        await small_team(tmp_path)
        await ready(pilot)


async def test_of_several_teams_one_is_picked(tmp_path: Path) -> None:
    await small_team(tmp_path)
    await small_team(tmp_path, name="beta")
    async with opened(tmp_path, team=None) as pilot:
        await until(pilot, "Which team?")
        await until(pilot, "beta")
        await pilot.press("down", "enter")
        await ready(pilot)
        assert text_of(pilot).startswith(" beta ")
        await pilot.press("w")
        await until(pilot, "Which team?")
