"""The chosen member: what it says, does and changes is on the screen as it comes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.system.processes import host_name
from bullpen.app.app import open_app
from bullpen.app.stores import open_teams
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.member.stream_view import StreamView
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.team.team import Team
from support.doors.tui_screens import enter, opened, quick_keys, ready, text_of, until
from support.doors.tui_teams import PLAN, ask, at, beat, hire, small_team

HERE = ProcessRecord.new(backend="subprocess", host=host_name(), pid=2**22 + 1, start="gone")


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Team, None]:
    """A team with one agent on this machine, in a repository."""
    quick_keys(monkeypatch)
    work = tmp_path / "work"
    work.mkdir()
    for words in (
        ["init", "-q", "-b", "main"],
        ["-c", "user.name=U", "-c", "user.email=u@x", "commit", "-q", "--allow-empty", "-m", "1"],
    ):
        await anyio.run_process(["git", "-C", str(work), *words])
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await hire(team, "dan", place=HERE, cwd=str(work))
        yield team


async def transcript(home: Path) -> Path:
    """The file in which dan records what it does."""
    async with open_app(at(home)) as bullpen_app:
        path = await bullpen_app.supervisor("alpha").transcript("dan")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def record(path: Path, *rows: dict[str, Any]) -> None:
    """Add rows to a transcript."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


EDIT = {
    "kind": "tool",
    "name": "Edit",
    "input": {"file_path": "lex.py", "old_string": "one\n", "new_string": "one\ntwo\nthree\n"},
}


async def test_words_and_calls_stream_in(tmp_path: Path, team: Team) -> None:
    path = await transcript(tmp_path)
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "Nothing from dan yet.")
        record(path, {"kind": "text", "text": "I will start with the **tokenizer**."}, EDIT)
        await until(pilot, "I will start with the tokenizer.")
        await until(pilot, "… Edit lex.py")
        record(path, {"kind": "result", "name": "Edit", "text": "done"})
        await until(pilot, "▸ Edit lex.py  +2")
        call = {"kind": "tool", "name": "Bash", "input": {"command": "pytest -q"}}
        record(path, call, {"kind": "result", "name": "Bash", "text": "12 passed in 0.10s"})
        await until(pilot, "▸ Bash pytest -q  12 passed")
        record(path, *({"kind": "text", "text": f"[red]line {n}[/]"} for n in range(60)))
        # It stays at the end, unless somebody has scrolled up.
        await until(pilot, "[red]line 59[/]")
        for _ in range(20):
            await pilot.press("pageup")
        await until(pilot, "I will start with the tokenizer.")
        record(path, {"kind": "text", "text": "the end"})
        view = pilot.app.screen.query_one(StreamView)
        lines = view.virtual_size.height
        await until(pilot, lambda: view.virtual_size.height > lines)
        assert "I will start with the tokenizer." in text_of(pilot)
        await pilot.press("ctrl+end")
        await until(pilot, "the end")


async def test_the_first_agent_that_starts_is_shown(tmp_path: Path) -> None:
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        async with opened(tmp_path, frozen=False) as pilot:
            await ready(pilot)
            await until(pilot, "No agent has started yet.")
            assert "unknown" not in text_of(pilot)
            await hire(teams.open("alpha"), "dan", place=HERE, cwd=str(tmp_path))
            await until(pilot, "Nothing from dan yet.")
            await pilot.press("shift+up")
            await until(pilot, "You lead this team.")


async def test_the_last_line_stays_in_sight_when_a_request_takes_room(
    tmp_path: Path, team: Team
) -> None:
    path = await transcript(tmp_path)
    record(path, *({"kind": "text", "text": f"line {n}"} for n in range(60)))
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "line 59")
        await ask(team, "dan")
        await until(pilot, "dan wants to run")
        await until(pilot, "line 59")
        record(path, {"kind": "text", "text": "the end"})
        await until(pilot, "the end")


async def test_enter_opens_a_call_with_its_diff(tmp_path: Path, team: Team) -> None:
    path = await transcript(tmp_path)
    record(path, EDIT, {"kind": "result", "name": "Edit", "text": "done"})
    async with opened(tmp_path, frozen=False, size=(100, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "▸ Edit lex.py")
        pilot.app.screen.query_one(StreamView).focus()
        await pilot.press("enter")
        await until(pilot, "+ three")
        await pilot.press("escape")
        await until(pilot, "you → ")


async def test_what_the_person_says_is_in_the_stream_once(tmp_path: Path, team: Team) -> None:
    path = await transcript(tmp_path)
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "you → dan:")
        await enter(pilot, "Both kinds, please.")
        await until(pilot, "> Both kinds, please.")
        record(path, {"kind": "mail", "text": "Your user says:\nBoth kinds, please."},
               {"kind": "text", "text": "I will."})  # fmt: skip
        await until(pilot, "I will.")
        assert text_of(pilot).count("Both kinds, please.") == 1
        lines = text_of(pilot).split("\n")
        asked = next(n for n, line in enumerate(lines) if "Both kinds" in line)
        assert asked < next(n for n, line in enumerate(lines) if "I will." in line)


async def test_the_changes_of_a_member_are_shown_and_kept_fresh(tmp_path: Path, team: Team) -> None:
    path = await transcript(tmp_path)
    work = tmp_path / "work"
    (work / "lex.py").write_text("one\n")
    async with opened(tmp_path, frozen=False, size=(120, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "dan")
        await pilot.press("f3")
        await until(pilot, "lex.py  +1 -0")
        await until(pilot, "+ one")
        (work / "lex.py").write_text("one\ntwo\n")
        record(path, EDIT, {"kind": "result", "name": "Edit", "text": "done"})
        await until(pilot, "lex.py  +2 -0")


async def test_the_other_parts_have_a_key_each(tmp_path: Path, team: Team) -> None:
    path = await transcript(tmp_path)
    record(path, {"kind": "note", "text": "a note"})
    await team.mailbox.send("dan", "Please measure.", sender="team-lead")
    request = await team.approvals.ask_plan(PLAN, by="dan", approver="human")
    await team.approvals.answer(
        request.id, approve=False, by="team-lead", voice="human", feedback="too slow"
    )
    async with opened(tmp_path, frozen=False, size=(100, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "dan")
        for key, shown in (
            ("f4", "note: a note"),
            ("f5", "you to dan:"),
            ("f6", "This plan was rejected. too slow"),
            ("f6", "Measure it with time."),
            ("f2", "a note"),
        ):
            await pilot.press(key)
            await until(pilot, shown)


async def test_who_works_elsewhere_shows_its_messages(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(100, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "> Please measure first.")
        await pilot.press("f4")
        await until(pilot, "alice runs on build-7. Its transcript is on that machine.")


async def test_active_form_is_what_a_working_member_shows(tmp_path: Path, team: Team) -> None:
    task = await team.tasks.add("Parse the config", by="team-lead", active_form="Parsing")
    await team.tasks.claim(task.id, by="dan")
    await beat(team, "dan", "working", ms=now_ms())
    async with opened(tmp_path, frozen=False, size=(100, 30)) as pilot:
        await ready(pilot)
        await until(pilot, "dan · working on #1 Parsing")
        await until(pilot, "▸ 1 Parsing")


async def test_actions_are_ready_without_holding_up_the_screen(tmp_path: Path) -> None:
    """What only actions need is imported in a thread."""
    async with LateApp(at(tmp_path)) as late_app:
        app = await late_app.ready_app()
        assert app is late_app.app


async def test_what_a_member_waits_for_is_shown_without_ids(tmp_path: Path, team: Team) -> None:
    waits = "permission from the lead for Bash ls (perm-1794828177377-39274b6)"
    await hire(team, "erin")
    await beat(team, "erin", "waiting", ms=now_ms(), detail=waits)
    async with opened(tmp_path, size=(160, 40), frozen=False) as pilot:
        await until(pilot, "erin")
        await pilot.press("shift+down")
        await until(pilot, "from the lead for Bash ls")
        assert "perm-" not in text_of(pilot)
