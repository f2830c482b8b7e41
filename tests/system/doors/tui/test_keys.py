"""The keys of the team's screen, those of Claude Code first, and what the mouse does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Button
from textual.widgets._toast import Toast

from bullpen.app.app import open_app
from bullpen.app.stores import open_teams
from bullpen.doors.tui.dialogs import Confirm, Writing
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.doors.tui.team_screen import TeamScreen
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
from support.doors.tui_screens import (
    enter,
    opened,
    quick_keys,
    ready,
    text_of,
    told,
    until,
    until_told,
)
from support.doors.tui_teams import ask, at, beat, hire, small_team


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Team, None]:
    """A team with an agent as its lead and two teammates."""
    quick_keys(monkeypatch)
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in (LEAD, "alice", "bob"):
            await hire(team, name)
            await beat(team, name, "working" if name != "bob" else "idle", ms=now_ms())
        yield team


def is_chosen(pilot: Pilot[None], name: str) -> bool:
    """Whether this member is the chosen one."""
    screen = pilot.app.screen
    return isinstance(screen, TeamScreen) and screen.chosen == name


def line(pilot: Pilot[None]) -> PromptLine:
    """The input line."""
    return pilot.app.screen.query_one(PromptLine)


async def test_shift_and_arrows_choose_a_member_and_enter_talks_to_it(
    team: Team, tmp_path: Path
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        assert is_chosen(pilot, LEAD)
        # No further than the last and the first member; a text in the line stays.
        await pilot.press(*"hi")
        for keys, name in (
            (["shift+down"], "alice"),
            (["shift+down", "shift+down"], "bob"),
            (["shift+up"], "alice"),
            (["shift+up", "shift+up"], LEAD),
            (["shift+down"], "alice"),
        ):
            await pilot.press(*keys)
            await until(pilot, partial(is_chosen, pilot, name))
            await until(pilot, f"─ {'lead' if name == LEAD else name}")
        assert line(pilot).text == "hi"
        assert "you → lead:" in text_of(pilot)
        await pilot.press("ctrl+c", "enter")
        await until(pilot, "you → alice:")


async def test_escape_interrupts_the_chosen_agent_if_it_works(team: Team, tmp_path: Path) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await pilot.press("shift+down", "shift+down", "escape")
        await until_told(pilot, "bob is not working: there is nothing to interrupt.")
        await pilot.press("shift+up", "escape")
        await until_told(pilot, "Interrupting alice.")
        mail = await team.mailbox.read("alice", history=True)
        assert any('"cancel"' in entry.message.text for entry in mail.entries)


async def test_escape_closes_what_is_open_before_it_interrupts(team: Team, tmp_path: Path) -> None:
    await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "wants to run")
        await anyio.sleep(0.2)
        await pilot.press("d")
        await until(pilot, "deny alice, reason")
        await pilot.press("escape")
        await pilot.press("question_mark")
        await until(pilot, "Keys")
        await pilot.press("escape")
        await pilot.press("/", "s")
        await until(pilot, "Start a teammate")
        await pilot.press("escape")
        await until(pilot, lambda: "Start a teammate" not in text_of(pilot))
        await pilot.press("ctrl+c", "tab")
        await until(pilot, lambda: not line(pilot).has_focus)
        await pilot.press("escape")
        await until(pilot, lambda: line(pilot).has_focus)
        assert "nterrupt" not in told(pilot).replace("esc interrupt", "")


async def test_shift_tab_goes_through_the_modes(team: Team, tmp_path: Path) -> None:
    async def mode(name: str) -> str:
        return (await team.agents.get(name))[1].mode

    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await until(pilot, "mode default")
        # Delegate is for the lead only.
        for name, modes in (
            (LEAD, ("acceptEdits", "plan", "delegate", "default")),
            ("alice", ("acceptEdits", "plan", "default")),
        ):
            for each in modes:
                await pilot.press("shift+tab")
                await until(pilot, f"mode {each}")
                assert await mode(name) == each
            await pilot.press("shift+down")


async def test_nobody_runs_the_person_so_there_is_no_mode(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press("shift+up", "shift+up", "shift+tab")
        await until_told(pilot, "Bullpen does not run it")
        await pilot.press("enter")
        await until_told(pilot, "This is you.")


async def test_question_mark_helps_only_in_an_empty_line(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press("w", "question_mark")
        assert line(pilot).text == "w?"
        await pilot.press("ctrl+c", "question_mark")
        await until(pilot, "Keys")


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+d"])
async def test_both_keys_leave_from_an_empty_line_only(tmp_path: Path, key: str) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press(*"abc", "home", key)
        await pilot.pause()
        assert pilot.app.is_running
        assert line(pilot).text == ("" if key == "ctrl+c" else "bc")
        await pilot.press("ctrl+c") if key == "ctrl+d" else None
        await pilot.press(key)
        await until(pilot, lambda: not pilot.app.is_running)


async def test_outside_of_the_line_letters_go_into_it(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press("tab")
        await until(pilot, lambda: not line(pilot).has_focus)
        # Keys that move in a list do so.
        await pilot.press("j", "h", "i")
        assert line(pilot).has_focus
        assert line(pilot).text == "hi"


async def test_tasks_are_opened_from_their_list(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await until(pilot, "Write the guide")
        pilot.app.screen.query_one("#tasks").focus()
        await pilot.press("down", "enter")
        await until(pilot, "Task #4")
        await pilot.press("escape")
        await until(pilot, lambda: "Task #4" not in text_of(pilot))


async def test_the_mouse_chooses_and_opens(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await until(pilot, "carol")
        await pilot.click("#team", offset=(4, 3))
        await until(pilot, "─ bob")
        await pilot.click("#team", offset=(4, 3))
        await until(pilot, "you → bob:")
        await pilot.click("#tab-mail")
        await until(pilot, "alice to bob:")
        await pilot.click("#tasks", offset=(4, 2))
        await pilot.click("#tasks", offset=(4, 2))
        await until(pilot, "Task #4")


async def test_a_task_is_assigned_on_the_board(tmp_path: Path, team: Team) -> None:
    task = await team.tasks.add("Write the parser", by=LEAD)
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "Write the p")
        await pilot.press("ctrl+t")
        await until(pilot, "Ready (1)")
        await pilot.press("t")
        await until(pilot, f"Assign task #{task.id} to whom?")
        await pilot.press(*"bob", "enter")
        await until_told(pilot, f"Task #{task.id} is assigned to bob.")
        assert (await team.tasks.get(task.id)).owner == "bob"


async def test_pages_show_only_what_is_searched_for(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await enter(pilot, "/messages")
        await until(pilot, "Please measure")
        await pilot.press("slash", *"from:alice", "enter")
        await until(pilot, lambda: "Please measure" not in text_of(pilot))
        assert "The parser reads the file twice." in text_of(pilot)
        await pilot.press("slash", "end", *" to:carol", "enter")
        await until(pilot, "Nothing matches.")
        await pilot.press("escape")
        await until(pilot, "Please measure")
        await pilot.press("escape")
        await until(pilot, "you → ")
        await pilot.press("ctrl+t", "slash", *"release", "enter")
        await until(pilot, lambda: "Write the guide" not in text_of(pilot))
        assert "Release it" in text_of(pilot)


async def test_notices_are_shown_on_demand(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(120, 40)) as pilot:
        await ready(pilot)
        await enter(pilot, "/messages")
        await until(pilot, "We ship on Friday.")
        assert "asks to use Bash" not in text_of(pilot)
        await pilot.press("n")
        await until(pilot, "asks to use Bash")
        await pilot.press("n")
        await until(pilot, lambda: "asks to use Bash" not in text_of(pilot))


async def test_a_store_that_cannot_be_read_is_said_and_so_is_its_return(
    tmp_path: Path, team: Team
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        config = tmp_path / "teams" / "alpha" / "config.json"
        whole = config.read_bytes()
        journal = next((tmp_path / "teams" / "alpha").rglob("*.jsonl"), None)
        assert journal is not None
        log = journal.read_bytes()
        journal.unlink()
        journal.mkdir()
        await until(pilot, "! Cannot read")
        assert "alice" in text_of(pilot)
        journal.rmdir()
        journal.write_bytes(log)
        config.write_bytes(whole)
        await until(pilot, lambda: "! Cannot read" not in text_of(pilot))


async def test_a_team_that_is_deleted_is_said_to_be_gone(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        async with open_app(at(tmp_path)) as bullpen_app:
            await bullpen_app.teams.delete("alpha", by=LEAD, force=True)
        await until(pilot, "The team alpha was deleted.")


@pytest.mark.parametrize("long", [False, True])
async def test_a_notice_covers_no_button_of_a_window(tmp_path: Path, long: bool) -> None:
    await small_team(tmp_path)
    terminal = TerminalText(plain=False)
    async with opened(tmp_path, size=(80, 24)) as pilot:
        await ready(pilot)
        for window in (
            Writing(terminal, "Edit the input:"),
            Confirm(terminal, "Stop?", "It ends."),
        ):
            pilot.app.push_screen(window)
            pilot.app.notify("The request was already answered. " * (6 if long else 1), timeout=60)
            await until(pilot, lambda: bool(pilot.app.screen.query(Toast)))
            await until(pilot, lambda: bool(pilot.app.screen.query_one(Toast).region))
            notices = [toast.region for toast in pilot.app.screen.query(Toast)]
            buttons = [button.region for button in pilot.app.screen.query(Button)]
            assert all(buttons) and not any(n.overlaps(b) for n in notices for b in buttons)
            pilot.app.pop_screen()
