"""Pictures of every page, as text: what somebody sees is what was meant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from support.doors.tui_screens import (
    SETTLED_S,
    compare,
    opened,
    quick_keys,
    ready,
    text_of,
    until,
)
from support.doors.tui_teams import small_team

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
async def test_the_team_is_shown_on_one_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    await small_team(tmp_path)
    wide = f"{size[0]}x{size[1]}"
    async with opened(tmp_path, size=size) as pilot:
        await ready(pilot)
        await until(pilot, "> We ship on Friday.")
        await compare(pilot, f"team-{wide}")
        await pilot.press("shift+down", "shift+down")
        await until(pilot, "carol asks you to approve its plan")
        await compare(pilot, f"plan-{wide}")
        await pilot.press("v")
        await until(pilot, "Measure it with time.")
        await compare(pilot, f"plan-viewed-{wide}")
        await pilot.press("escape", "ctrl+t")
        await until(pilot, "Blocked (3)")
        await compare(pilot, f"tasks-{wide}")
        await pilot.press("g")
        await until(pilot, "most effort")
        await compare(pilot, f"graph-{wide}")


@pytest.mark.parametrize(
    ("keys", "seen", "name"),
    [
        (["f5"], "Please measure first.", "mail"),
        (["slash"], "Start a teammate", "commands"),
        (["d"], "deny bob, reason", "deny"),
        (["question_mark"], "Talk", "help"),
    ],
)
async def test_what_opens_by_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], seen: str, name: str
) -> None:
    quick_keys(monkeypatch)
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await until(pilot, "> We ship on Friday.")
        await anyio.sleep(2 * SETTLED_S)
        await pilot.press(*keys)
        await until(pilot, seen)
        await compare(pilot, f"{name}-80x24")


async def test_a_terminal_without_unicode_gets_none(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, plain=True) as pilot:
        await ready(pilot)
        await until(pilot, "> We ship on Friday.")
        await compare(pilot, "plain-team-80x24")
        for keys in (
            ["n"], ["v"], ["escape", "f3"], ["f4"], ["f5"], ["f6"], ["slash"], ["escape"],
            ["ctrl+c", "question_mark"], ["escape", "ctrl+t"], ["g"],
        ):  # fmt: skip
            await pilot.press(*keys)
            await pilot.pause(0.5)
            shown = text_of(pilot)
            assert shown.isascii(), shown
        await compare(pilot, "plain-graph-80x24")


async def test_without_a_team_it_says_how_to_get_one(tmp_path: Path) -> None:
    async with opened(tmp_path, team=None) as pilot:
        await until(pilot, "There is no team yet.")
        shown = text_of(pilot)
        assert "bullpen demo" in shown
        assert "bullpen init" in shown
        await small_team(tmp_path)
        await ready(pilot)
