"""The application without a terminal, and what it shows as text."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.prompt import ask_bar, prompt_line
from bullpen.doors.tui.prompt.hint import Hint
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.doors.tui.team_screen import TeamScreen
from bullpen.protocol.clock import now_ms
from bullpen.protocol.request import Request
from bullpen.team.team import Team

from .tui_teams import NOW_MS, at

REWRITE = "BULLPEN_TUI_REWRITE"
_SETTLED_S = 10.0
SETTLED_S = 0.05
_SCREENS = Path(__file__).parent / "tui_pages"
_DEADLINE_S = 45.0


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
        clock = (lambda: NOW_MS) if frozen else now_ms
        app = TeamApp(late_app, team=team, plain=plain, clock=clock)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield pilot


def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests settle, and single keys answer, without much waiting."""
    monkeypatch.setattr(ask_bar, "SETTLE_S", SETTLED_S)
    monkeypatch.setattr(prompt_line, "HOLD_S", 0.01)


def lines_of(pilot: Pilot[None]) -> list[str]:
    """The lines of the screen as somebody reads them."""
    screen = pilot.app.screen
    strips = screen._compositor.render_strips(screen.size)
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def text_of(pilot: Pilot[None]) -> str:
    """The screen as text."""
    return "\n".join(lines_of(pilot)) + "\n"


def told(pilot: Pilot[None]) -> str:
    """What came of the last action: below the input line, or in a notice above another screen."""
    hints = [hint.content for screen in pilot.app.screen_stack for hint in screen.query(Hint)]
    notices = [toast._notification.message for toast in pilot.app.screen.query(Toast)]
    return "\n".join([*(each.plain for each in hints if isinstance(each, Text)), *notices])


async def until(pilot: Pilot[None], seen: str | Callable[[], bool]) -> None:
    """Wait until the screen shows a text, or something holds."""
    with anyio.move_on_after(_DEADLINE_S):
        while True:
            await pilot.pause()
            if seen in text_of(pilot) if isinstance(seen, str) else seen():
                return
            await anyio.sleep(0.05)
    raise AssertionError(f"never seen: {seen}\n{text_of(pilot)}\n{told(pilot)}")


async def until_told(pilot: Pilot[None], text: str) -> None:
    """Wait until the person is told something."""
    await until(pilot, lambda: text in told(pilot))


async def ready(pilot: Pilot[None]) -> TeamScreen:
    """Wait for the first picture of the team with its history."""
    await until(pilot, " tasks")
    screen = pilot.app.screen
    assert isinstance(screen, TeamScreen)
    await until(pilot, lambda: screen.looked_at is not None and screen.looked_at.story.has_log)
    return screen


async def enter(pilot: Pilot[None], text: str) -> None:
    """Type a text into the input line, and send it."""
    line = pilot.app.screen.query_one(PromptLine)
    line.focus()
    line.put(text)
    await pilot.pause()
    await pilot.press("enter")


async def answered(pilot: Pilot[None], team: Team, request: Request) -> Request:
    """The request once it is answered."""
    found = request
    with anyio.fail_after(_DEADLINE_S):
        while found.state == "pending":
            await pilot.pause(0.02)
            found = await team.approvals.get(request.id)
    return found


async def compare(pilot: Pilot[None], name: str) -> None:
    """The screen becomes as the file of that name says; BULLPEN_TUI_REWRITE=1 writes the file."""
    path = _SCREENS / f"{name}.txt"
    if os.environ.get(REWRITE):
        path.write_text(text_of(pilot), "utf-8")
    wanted = path.read_text("utf-8")
    # A line can come a moment after the one that was waited for.
    with anyio.move_on_after(_SETTLED_S):
        while text_of(pilot) != wanted:
            await pilot.pause(0.05)
    assert text_of(pilot) == wanted, f"{name}; {REWRITE}=1 writes what is shown now"
