"""A run and its screen: one opens with the other, and both end together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from textual.pilot import Pilot

from bullpen.app.stores import open_teams
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.run_app import ENDED, RunApp
from bullpen.errors import Refused
from bullpen.protocol.agent import Usage
from bullpen.runs.watch.outcome import Outcome, Progress, Watch
from support.doors.tui_screens import enter, text_of, told, until, until_told
from support.doors.tui_teams import at, hire

DONE = Outcome(0, "done", "It is done.", "shop", Usage.new(), {})


class Played:
    """A run that does as a test says, and the app that shows it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.may_begin, self.may_end = anyio.Event(), anyio.Event()
        self.may_stop = anyio.Event()
        self.cancelled = False
        self.watch: Watch | None = None
        self.fails: Exception | None = None
        self.ended: Outcome | None = None
        self.raised: Exception | None = None
        self.left: list[str | None] = []

    def leave(self, team: str | None) -> None:
        """Take note that the person waits no longer; what is beside the screen can end then."""
        self.left.append(team)
        self.may_stop.set()

    async def start(self, watch: Watch) -> Outcome:
        """Make a team once it may, and end once it may."""
        try:
            await self.may_begin.wait()
            async with open_teams(at(self._home)) as teams:
                await teams.create("shop")
                team = teams.open("shop")
                await hire(team, "alice")
                self.snapshot = await team.snapshot()
                watch(Progress("shop", self.snapshot, []))
                self.watch = watch
            await self.may_end.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            with anyio.CancelScope(shield=True):
                await self.may_stop.wait()
            raise
        if self.fails is not None:
            raise self.fails
        return DONE


@asynccontextmanager
async def shown(played: Played, home: Path) -> AsyncGenerator[tuple[RunApp, Pilot[None]], None]:
    """The screen of a run; the block ends when the screen has closed."""
    async with LateApp(at(home)) as late_app, anyio.create_task_group() as group:
        app = RunApp(late_app, played.start, about="Open a shop", team=None, plain=False)
        pilots: list[Pilot[None]] = []
        close, is_shown = anyio.Event(), anyio.Event()

        async def show() -> None:
            async with app.run_test(size=(80, 24), notifications=True) as pilot:
                pilots.append(pilot)
                is_shown.set()
                await settled(lambda: close.is_set() or not app.is_running)

        async def beside() -> None:
            try:
                played.ended = await app.run_beside(show, played.leave)
            except Refused as error:
                played.raised = error

        group.start_soon(beside)
        await is_shown.wait()
        try:
            # As a pilot in the task of its app has it.
            with app._context():
                yield app, pilots[0]
            await settled(lambda: not app.is_running)
        finally:
            close.set()
            for event in (played.may_begin, played.may_end, played.may_stop):
                event.set()


async def settled(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(30):
        while True:
            if holds():
                return
            await anyio.sleep(0.02)


async def test_the_screen_opens_before_the_team_is_named_and_closes_with_the_run(
    tmp_path: Path,
) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (app, pilot):
        await until(pilot, "starting the team")
        assert "Open a shop" in text_of(pilot)
        played.may_begin.set()
        await until(pilot, "alice")
        assert app.team == "shop"
        played.may_end.set()
    assert played.ended == DONE


async def test_why_nothing_is_merged_is_shown_as_long_as_it_holds(tmp_path: Path) -> None:
    played = Played(tmp_path)
    held = "main itself fails at 12ab. The check of the gate fails (pytest -q).\nF.\n1 failed"
    async with shown(played, tmp_path) as (_, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        assert played.watch is not None
        news = [f"merging waits: {held}"]
        played.watch(Progress("shop", played.snapshot, [], told=news, held=held))
        await until(pilot, "main itself fails")
        assert "1 failed Fix it there: merging then goes on." in " ".join(text_of(pilot).split())
        news = ["backlog 1: 2 new tasks"]
        played.watch(Progress("shop", played.snapshot, [], told=news, held=held))
        await until_told(pilot, "2 new tasks")
        assert "merging waits" not in told(pilot)
        played.watch(Progress("shop", played.snapshot, []))
        await until(pilot, lambda: "main itself fails" not in text_of(pilot))
        played.may_end.set()


async def test_one_ctrl_c_stops_nothing(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (_, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        await pilot.press("a", "ctrl+c", "ctrl+c")
        await until_told(pilot, "Press Ctrl-C again to stop the run.")
        assert not played.cancelled
        played.may_end.set()
    assert played.ended == DONE


async def test_ctrl_c_pressed_twice_stops_the_run_in_order_and_says_so(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (app, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        await pilot.press("ctrl+c", "ctrl+c")
        await until(pilot, "Stopping the agents.")
        await settled(lambda: played.cancelled)
        assert app.is_running
        played.may_stop.set()
    assert played.ended is None
    assert not app.quit_at_once


@pytest.mark.parametrize("word", ["/quit", "/exit"])
async def test_quit_asks_before_it_stops_the_run(tmp_path: Path, word: str) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (_, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        await enter(pilot, word)
        await until_told(pilot, "This stops the run. /quit again, or /finish.")
        # Another command in between counts as a change of mind.
        await enter(pilot, "/theme")
        await until_told(pilot, "Theme:")
        await enter(pilot, word)
        await until_told(pilot, "This stops the run.")
        assert not played.cancelled
        await enter(pilot, word)
        await settled(lambda: played.cancelled)
        played.may_stop.set()
    assert played.ended is None


async def test_the_next_ctrl_c_waits_for_nobody(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (app, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        await pilot.press("ctrl+c", "ctrl+c")
        await settled(lambda: played.cancelled)
        await pilot.press("ctrl+c")
        await settled(lambda: not app.is_running)
        assert app.quit_at_once
        await settled(lambda: bool(played.left))
        assert played.left == ["shop"]


async def test_a_terminal_that_hangs_up_twice_stops_the_run_in_order(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (app, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        app.hang_up()
        await settled(lambda: played.cancelled)
        app.hang_up()
        assert app.is_running
        played.may_stop.set()
    assert played.ended is None
    assert not app.quit_at_once


async def test_a_page_that_is_read_stays_when_the_run_ends_behind_it(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with shown(played, tmp_path) as (app, pilot):
        played.may_begin.set()
        await until(pilot, "alice")
        await pilot.press("question_mark")
        await settled(lambda: len(app.screen_stack) > 1)
        played.may_end.set()
        await until_told(pilot, ENDED)
        await anyio.sleep(0.5)
        assert app.is_running
        assert not app.quit_stops, "there is nothing to stop any more"
        await pilot.press("escape")
        await settled(lambda: not app.is_running)
    assert played.ended == DONE
    assert not played.cancelled


async def test_what_a_run_raises_is_raised(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.fails = Refused("No key.", reason="no_key", remedy="Set one.")
    played.may_begin.set()
    played.may_end.set()
    async with shown(played, tmp_path):
        pass
    assert played.raised is played.fails


@pytest.mark.parametrize("early", [True, False], ids=["before it began", "while it works"])
async def test_a_screen_that_breaks_stops_the_run(tmp_path: Path, early: bool) -> None:
    played = Played(tmp_path)
    played.may_stop.set()
    began: list[Callable[[], Awaitable[object]]] = []

    async def broken() -> None:
        began.append(broken)
        if not early:
            app.on_ready()
            await anyio.lowlevel.checkpoint()

    async with LateApp(at(tmp_path)) as late_app:
        app = RunApp(late_app, played.start, about="x", team=None, plain=True)
        with anyio.fail_after(30):
            assert await app.run_beside(broken, played.leave) is None
    assert began


async def test_after_its_screen_broke_a_run_that_does_not_stop_is_left_by_ctrl_c(
    tmp_path: Path,
) -> None:
    played = Played(tmp_path)

    async def broken() -> None:
        app.on_ready()
        await anyio.lowlevel.checkpoint()

    async def ctrl_c() -> None:
        await settled(lambda: played.cancelled)
        app.stop()

    async with LateApp(at(tmp_path)) as late_app, anyio.create_task_group() as group:
        app = RunApp(late_app, played.start, about="x", team=None, plain=True)
        group.start_soon(ctrl_c)
        with anyio.fail_after(30):
            await app.run_beside(broken, played.leave)
    assert played.left == [None]
