"""Talking to the team: what is typed arrives, and every command does what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from bullpen.agents.system.processes import host_name, start_of
from bullpen.app.stores import open_teams
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.protocol.agent import ProcessRecord
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
from support.doors.tui_teams import ask, at, beat, hire, nonce, small_team

MODES = {"bob": "acceptEdits", LEAD: "default"}


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Team, None]:
    """A team with an agent as its lead and two teammates."""
    quick_keys(monkeypatch)
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in (LEAD, "alice", "bob"):
            await hire(team, name)
            await beat(team, name, "working", ms=now_ms())
        yield team


def line(pilot: Pilot[None]) -> str:
    """What is in the input line."""
    return pilot.app.screen.query_one(PromptLine).text


async def got(team: Team, name: str) -> list[str]:
    """The messages that a member has got from the person."""
    mail = await team.mailbox.read(name, history=True)
    return [entry.message.text for entry in mail.entries if entry.message.is_of_a_person]


async def arrived(pilot: Pilot[None], team: Team, name: str, texts: list[str]) -> None:
    """Wait until a member has exactly these messages."""
    for _ in range(600):
        if await got(team, name) == texts:
            return
        await pilot.pause(0.05)
    raise AssertionError((await got(team, name), told(pilot)))


async def test_what_is_typed_goes_to_the_lead_and_is_shown_at_once(
    tmp_path: Path, team: Team
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "you → lead:")
        await pilot.press(*"Both kinds, please.", "enter")
        await until(pilot, "> Both kinds, please.")
        assert line(pilot) == ""
        await arrived(pilot, team, LEAD, ["Both kinds, please."])
        # Again and again: it is a conversation.
        await pilot.press(*"And tests.", "enter")
        await arrived(pilot, team, LEAD, ["Both kinds, please.", "And tests."])
        assert text_of(pilot).count("> Both kinds, please.") == 1


async def test_a_name_or_everybody_can_be_written_to(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await enter(pilot, "@alice one")
        await arrived(pilot, team, "alice", ["one"])
        await until_told(pilot, "To alice: one")
        await enter(pilot, "@team two")
        await arrived(pilot, team, "alice", ["one", "two"])
        await arrived(pilot, team, "bob", ["two"])
        await until_told(pilot, "Sent to everybody.")
        # A name alone directs the line there, and `lead` is the lead.
        await enter(pilot, "@alice")
        await until(pilot, "you → alice:")
        await enter(pilot, "@lead")
        await until(pilot, "you → lead:")


async def test_the_mail_of_the_lead_says_who_allowed_what(tmp_path: Path, team: Team) -> None:
    request = await ask(team, LEAD)
    await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    await beat(team, LEAD, "waiting", ms=now_ms(), detail="paused by team-lead")
    async with opened(tmp_path, frozen=False, size=(120, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "paused by lead")
        await pilot.press("f5")
        await until(pilot, "you to lead:")
        await until(pilot, "allowed: Bash git push origin main")
        assert "team-lead" not in text_of(pilot)
        await enter(pilot, "/messages")
        await until(pilot, lambda: not pilot.app.screen.query(PromptLine))
        await pilot.press("n")
        await until(pilot, "allowed: Bash git push")
        assert "team-lead" not in text_of(pilot)


async def test_an_error_is_gone_with_the_next_key(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await enter(pilot, "/spwan x y")
        await until_told(pilot, "There is no command /spwan.")
        await pilot.press("ctrl+c", "h")
        await until(pilot, lambda: "There is no command" not in told(pilot))


async def test_a_text_may_have_several_lines(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "you → lead:")
        await pilot.press("o", "n", "e", "ctrl+j", "t", "w", "o")
        pilot.app.screen.query_one(PromptLine).post_message(events.Paste("\r\nthree\x1b[2J\rfour"))
        await until(pilot, "four")
        await pilot.press("enter")
        await arrived(pilot, team, LEAD, ["one\ntwo\nthree\\x1b[2J\nfour"])


async def test_what_was_typed_comes_back_with_the_arrows(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        for text in ("first", "@bob second"):
            await enter(pilot, text)
            await until(pilot, lambda: line(pilot) == "")
        shown = []
        for key in ("up", "up", "up", "down", "down"):
            await pilot.press(key)
            shown.append(line(pilot))
        assert shown == ["@bob second", "first", "first", "@bob second", ""]


async def test_commands_and_names_are_completed(tmp_path: Path, team: Team) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await pilot.press("/")
        await until(pilot, "/spawn NAME PROMPT")
        await until(pilot, "Start a teammate")
        await pilot.press("m", "o", "tab")
        assert line(pilot) == "/mode "
        await until(pilot, "acceptEdits")
        await pilot.press("down", "tab")
        assert line(pilot) == "/mode acceptEdits "
        await pilot.press("b", "enter")
        assert line(pilot) == "/mode acceptEdits bob"
        await pilot.press("ctrl+c")
        await pilot.press("@", "a", "l", "tab")
        assert line(pilot) == "@alice "
        await pilot.press("ctrl+c", "/")
        await until(pilot, "/interrupt")
        await pilot.press("escape")
        await until(pilot, lambda: "Start a teammate" not in text_of(pilot))
        assert line(pilot) == "/"


async def test_what_could_not_be_sent_comes_back(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "you → lead:")

        async def fails(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(PersonActions, "send", fails)
        await enter(pilot, "important")
        await until_told(pilot, "No space left")
        assert line(pilot) == "important"
        assert "> important" not in text_of(pilot)


async def test_every_command_does_what_it_says(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[tuple[str, str]] = []

    async def spawn(_: PersonActions, name: str, prompt: str) -> None:
        wanted.append((name, prompt))

    monkeypatch.setattr(PersonActions, "spawn", spawn)
    async with opened(tmp_path, frozen=False, size=(120, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        for typed, answer in (
            ("/task Write the parser of comments", "Added task #1."),
            ("/assign #1 bob", "Task #1 is assigned to bob."),
            ("/assign 7 bob", "has no task"),
            ("/mode acceptEdits bob", "bob is in mode acceptEdits from its next"),
            ("/mode fast", "fast"),
            ("/budget none", "The team has no budget."),
            ("/budget much", "'much' is not an amount."),
            ("/budget 5", "The budget is $5.00."),
            ("/spawn dora Write the docs of the parser", "dora is at work."),
            ("/spwan x y", "There is no command /spwan. Did you mean /spawn?"),
            ("/interrupt bob", "Interrupting bob."),
            ("/finish The parser is done.", "Finishing the run"),
        ):
            await enter(pilot, typed)
            await until_told(pilot, answer)
            if line(pilot):
                await pilot.press("ctrl+c")
        await until(pilot, "result: The parser is done.")
        await until(pilot, "of $5")
    task, modes = await team.tasks.get("1"), {n: (await team.agents.get(n))[1].mode for n in MODES}
    assert (task.subject, task.owner) == ("Write the parser of comments", "bob")
    assert modes == MODES
    assert (await team.agents.config()).facts.limits.usd == 5.0
    mail = await team.mailbox.read("bob", history=True)
    assert any('"cancel"' in entry.message.text for entry in mail.entries)
    assert wanted == [("dora", "Write the docs of the parser")]


async def test_stop_asks_first_and_ends_the_process(tmp_path: Path, team: Team) -> None:
    program = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={"BULLPEN_NONCE": nonce("dan")},
        start_new_session=True,
    )
    try:
        place = ProcessRecord.new(
            backend="subprocess", host=host_name(), pid=program.pid,
            start=start_of(program.pid), group=program.pid,
        )  # fmt: skip
        await hire(team, "dan", place=place)
        async with opened(tmp_path, frozen=False) as pilot:
            await ready(pilot)
            await until(pilot, "dan")
            await enter(pilot, "/stop dan")
            await until(pilot, "Stop dan?")
            await pilot.press("enter")
            await until(pilot, lambda: "Stop dan?" not in text_of(pilot))
            assert program.poll() is None
            await enter(pilot, "/stop dan")
            await until(pilot, "Stop dan?")
            await pilot.press("y")
            await until_told(pilot, "Stopped dan.")
            assert program.wait(5) is not None
            await until(pilot, "■ dan")
            assert (await team.agents.get("dan"))[1].cause == "a person stopped it"
    finally:
        program.kill()
        program.wait()


async def test_attach_says_why_there_is_nothing_to_see(tmp_path: Path, team: Team) -> None:
    pane = {"backend": "tmux", "server": str(tmp_path / "no-server"), "pane": "%0"}
    await hire(team, "carol", place=ProcessRecord.new(host="build-7", **pane))
    gone = ProcessRecord.new(host=host_name(), pid=2**22 + 1, start="gone", **pane)
    await hire(team, "dan", place=gone)
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "dan")
        for name, why in (
            ("alice", "'alice' has no terminal to show (backend: subprocess)."),
            ("carol", "Run on build-7: bullpen attach carol -t alpha"),
            ("dan", "'dan' is no longer running (lost)."),
        ):
            await enter(pilot, f"/attach {name}")
            await until_told(pilot, why)


async def test_pages_open_by_their_commands_and_close_with_escape(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(120, 40)) as pilot:
        await ready(pilot)
        for command, shown in (
            ("/graph", "most effort"),
            ("/messages", "We ship on Friday."),
            ("/log", "you added task"),
            ("/help", "write to whoever"),
        ):
            await enter(pilot, command)
            await until(pilot, lambda: not pilot.app.screen.query(PromptLine))
            await until(pilot, shown)
            await pilot.press("escape")
            await until(pilot, "you → ")


async def test_themes_go_round_and_quit_leaves(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        before = pilot.app.theme
        await enter(pilot, "/theme")
        await until(pilot, lambda: pilot.app.theme != before)
        await enter(pilot, "/quit")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_of_several_teams_another_is_chosen(tmp_path: Path) -> None:
    await small_team(tmp_path)
    await small_team(tmp_path, name="beta")
    async with opened(tmp_path, team=None) as pilot:
        await until(pilot, "Which team?")
        await until(pilot, "beta")
        await pilot.press("down", "enter")
        await ready(pilot)
        assert text_of(pilot).startswith(" beta ")
        await enter(pilot, "/teams")
        await until(pilot, "Which team?")


async def test_in_a_run_the_list_of_teams_stays_closed(tmp_path: Path, team: Team) -> None:
    assert not TeamApp.is_run
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        pilot.app.is_run = True  # type: ignore[attr-defined]
        await enter(pilot, "/teams")
        await until_told(pilot, "This screen belongs to a run.")
        # One Ctrl-D in a run only warns; the second finishes it.
        await pilot.press("ctrl+d")
        await until_told(pilot, "Press Ctrl-D again to finish the run")
        assert await team.agents.result() is None
        await pilot.press("ctrl+d")
        await until_told(pilot, "Finishing the run")
