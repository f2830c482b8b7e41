"""The application without a terminal, and what it shows as text."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from textual.pilot import Pilot

from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.team_screen import TeamScreen

from .tui_teams import NOW_MS, at

REWRITE = "BULLPEN_TUI_REWRITE"
_SCREENS = Path(__file__).parent / "tui_pages"
_DEADLINE_S = 30.0


@asynccontextmanager
async def opened(
    home: Path,
    *,
    team: str | None = "alpha",
    size: tuple[int, int] = (80, 24),
    plain: bool = False,
    frozen: bool = True,
) -> AsyncGenerator[Pilot[None], None]:
    """The application at a home; `frozen` is with the clock of the pictures."""
    async with LateApp(at(home)) as late_app:
        clock = {"clock": lambda: NOW_MS} if frozen else {}
        app = TeamApp(late_app, team=team, plain=plain, **clock)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield pilot


def lines_of(pilot: Pilot[None]) -> list[str]:
    """The lines of the screen as somebody reads them."""
    screen = pilot.app.screen
    strips = screen._compositor.render_strips(screen.size)
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def text_of(pilot: Pilot[None]) -> str:
    """The screen as text."""
    return "\n".join(lines_of(pilot)) + "\n"


async def until(pilot: Pilot[None], seen: str | Callable[[], bool]) -> None:
    """Wait until the screen shows a text, or something holds."""
    with anyio.move_on_after(_DEADLINE_S):
        while True:
            await pilot.pause()
            if seen in text_of(pilot) if isinstance(seen, str) else seen():
                return
            await anyio.sleep(0.05)
    raise AssertionError(f"never seen: {seen}\n{text_of(pilot)}")


async def ready(pilot: Pilot[None]) -> TeamScreen:
    """Wait for the first picture of the team with its history."""
    await until(pilot, "tasks done")
    screen = pilot.app.screen
    assert isinstance(screen, TeamScreen)
    await until(pilot, lambda: screen.looked_at is not None and screen.looked_at.story.has_log)
    return screen


def compare(pilot: Pilot[None], name: str) -> None:
    """The screen is as the file of that name says; with BULLPEN_TUI_REWRITE=1, so it is written."""
    path = _SCREENS / f"{name}.txt"
    shown = text_of(pilot)
    if os.environ.get(REWRITE):
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8"), f"{name}; {REWRITE}=1 writes what is shown now"
