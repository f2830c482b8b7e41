"""Every action by keys or mouse, against a real store: what is recorded is what was meant."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import anyio
import pytest
from rich.text import Text
from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual.widgets import DataTable, TextArea
from textual.widgets._toast import Toast

from bullpen.agents.system.processes import host_name, start_of
from bullpen.app.app import open_app
from bullpen.app.stores import open_teams
from bullpen.doors.tui.panes import requests
from bullpen.doors.tui.panes.members import MembersPane
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.protocol.request import Request
from bullpen.team.team import Team
from support.doors.tui_screens import opened, ready, text_of, until
from support.doors.tui_teams import ask, at, beat, hire, nonce, small_team

SETTLED_S = 0.05


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Team, None]:
    """A team with two members, as they are right now."""
    monkeypatch.setattr(requests, "SETTLE_S", SETTLED_S)
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in ("alice", "bob"):
            await hire(team, name)
            await beat(team, name, "working", ms=now_ms())
        yield team


async def on_waiting(pilot: Pilot[None], shown: str) -> None:
    """Go to the request that waits, and let it settle."""
    await ready(pilot)
    await pilot.press("4")
    await until(pilot, shown)
    await anyio.sleep(2 * SETTLED_S)


def is_told(pilot: Pilot[None], text: str) -> bool:
    """Whether a notice on the screen says this, on however many lines."""
    return any(text in toast._notification.message for toast in pilot.app.screen.query(Toast))


async def answered(pilot: Pilot[None], team: Team, request: Request) -> Request:
    """The request once it is answered."""
    found = request
    with anyio.fail_after(45):
        while found.state == "pending":
            await pilot.pause(0.02)
            found = await team.approvals.get(request.id)
    return found


async def test_approve_allows_exactly_what_is_shown(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "git push origin main")
        await pilot.press("a")
        found = await answered(pilot, team, request)
        assert (found.state, found.voice) == ("approved", "human")
        await until(pilot, "Allowed alice")
        await until(pilot, "No requests are waiting.")
        _, agent = await team.agents.get("alice")
        assert agent.standing.allow == []


async def test_always_adds_the_rule_that_is_shown(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, '"Always" would allow: Bash(git push:*)')
        await pilot.press("A")
        await answered(pilot, team, request)
        _, agent = await team.agents.get("alice")
        assert agent.standing.allow == ["Bash(git push:*)"]


async def test_edit_allows_another_input(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice", "rm -rf build")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "rm -rf build")
        await pilot.press("e")
        await until(pilot, '"command": "rm -rf build"')
        pilot.app.screen.query_one(TextArea).text = json.dumps({"command": "ls build"})
        await pilot.press("ctrl+s")
        found = await answered(pilot, team, request)
        assert found.state == "approved"
        assert found.answer is not None
        assert found.answer["updatedInput"] == {"command": "ls build"}


async def test_an_edit_that_is_no_input_is_refused_and_nothing_is_answered(
    tmp_path: Path, team: Team
) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "git push")
        await pilot.press("e")
        await until(pilot, '"command"')
        pilot.app.screen.query_one(TextArea).text = "{not json"
        await pilot.press("ctrl+s")
        await until(pilot, "The input is not JSON")
        assert (await team.approvals.get(request.id)).state == "pending"


async def test_deny_says_why(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "git push")
        await pilot.press("d")
        await until(pilot, "Reason (the agent will see")
        await pilot.press(*"not now", "ctrl+s")
        found = await answered(pilot, team, request)
        assert found.state == "denied"
        mail = await team.mailbox.read("alice", history=True)
        assert any("not now" in entry.message.text for entry in mail.entries)


async def test_leaving_a_window_answers_nothing(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "git push")
        for key in ("d", "e"):
            await pilot.press(key)
            await until(pilot, "Cancel")
            await pilot.press("escape")
            await pilot.pause()
        assert (await team.approvals.get(request.id)).state == "pending"


async def test_a_plan_is_approved(tmp_path: Path, team: Team) -> None:
    await hire(team, "carol", mode="plan")
    request = await team.approvals.ask_plan("# Go\n\nslowly", by="carol", approver="human")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "slowly")
        await pilot.press("r")
        await until(pilot, "# Go")
        await pilot.press("a")
        assert (await answered(pilot, team, request)).state == "approved"


async def test_what_comes_under_the_cursor_by_itself_is_not_answered_at_once(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ask(team, "alice", "echo one")
    second = await ask(team, "bob", "echo two")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "echo one")
        monkeypatch.setattr(requests, "SETTLE_S", 60.0)
        await pilot.press("down", "up", "a")
        await answered(pilot, team, first)
        await until(pilot, lambda: "echo one" not in text_of(pilot).split("Allowed")[0])
        await pilot.press("a")
        await until(pilot, "only just appeared")
        assert (await team.approvals.get(second.id)).state == "pending"
        await pilot.press("down", "a")
        assert (await answered(pilot, team, second)).state == "approved"


async def test_a_message_goes_to_the_chosen_member_and_to_everybody(
    tmp_path: Path, team: Team
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await pilot.press("down", "down", "m")
        await until(pilot, "To bob:")
        await pilot.press(*"hello bob", "ctrl+s")
        await until(pilot, "Sent to bob.")
        await pilot.press("M")
        await until(pilot, "To everybody:")
        await pilot.press(*"hello all", "ctrl+s")
        await until(pilot, "Sent to everybody.")
        bob = await team.mailbox.read("bob", history=True)
        assert [entry.message.text for entry in bob.entries][-2:] == ["hello bob", "hello all"]
        alice = await team.mailbox.read("alice", history=True)
        assert [entry.message.text for entry in alice.entries][-1:] == ["hello all"]
        await pilot.press("3", "m")
        await until(pilot, "To you:")
        await pilot.press("ctrl+s")
        await until(pilot, "The message is empty.")


async def test_a_task_is_assigned_from_both_sides(tmp_path: Path, team: Team) -> None:
    first = await team.tasks.add("Write the parser", by="team-lead")
    second = await team.tasks.add("Test the parser", by="team-lead")
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await pilot.press("down", "t")
        await until(pilot, "Which task for alice?")
        await pilot.press(*"writ", "enter")
        await until(pilot, f"Task #{first.id} is assigned to alice.")
        assert (await team.tasks.get(first.id)).owner == "alice"
        await pilot.press("2")
        await until(pilot, "Test the parser")
        await pilot.press("home", "down", "down", "t")
        await until(pilot, f"Assign task #{second.id} to whom?")
        await pilot.press(*"bob", "enter")
        await until(pilot, f"Task #{second.id} is assigned to bob.")
        assert (await team.tasks.get(second.id)).owner == "bob"


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
            await pilot.press("end", "s")
            await until(pilot, "Stop dan?")
            await pilot.press("enter")
            await pilot.pause()
            assert program.poll() is None
            await pilot.press("s")
            await until(pilot, "Stop dan?")
            await pilot.press("y")
            await until(pilot, "Stopped dan.")
            assert program.wait(5) is not None
            await until(pilot, "■ stopped")
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
        for name, why in (
            ("alice", "'alice' has no terminal to show (backend: subprocess)."),
            ("carol", "The terminal of 'carol' is on the machine build-7."),
            ("dan", "'dan' is no longer running (lost)."),
        ):
            await pilot.press("slash", *name, "enter", "o")
            await until(pilot, partial(is_told, pilot, why))
            await until(pilot, f"'{name}'")
            await pilot.press("escape")
        assert is_told(pilot, "Run on build-7: bullpen attach carol -t alpha")
        assert "build-7" in text_of(pilot)


async def test_an_error_of_the_store_is_told_and_the_screen_goes_on(
    tmp_path: Path, team: Team
) -> None:
    await team.tasks.add("Write the parser", by="team-lead")
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await pilot.press("down", "t")
        await until(pilot, "Which task for alice?")
        await team.tasks.delete("1", by="team-lead")
        await pilot.press("enter")
        await until(pilot, "has no task")
        await pilot.press("2")
        await until(pilot, "There are no tasks.")


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
            await bullpen_app.teams.delete("alpha", by="team-lead", force=True)
        await until(pilot, "The team alpha was deleted.")


async def test_filters_leave_what_is_searched_for(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.press("3", "slash", *"from:alice", "enter")
        await until(pilot, lambda: "Please measure" not in text_of(pilot))
        assert "The parser reads the file twice." in text_of(pilot)
        await pilot.press("slash", "end", *" to:carol", "enter")
        await until(pilot, "Nothing matches.")
        await pilot.press("escape")
        await until(pilot, "Please measure")
        await pilot.press("1", "slash", *"carol", "enter")
        await until(pilot, lambda: "alice" not in text_of(pilot))
        await pilot.press("2")
        await until(pilot, "Write the guide")
        await pilot.press("slash", *"release", "enter")
        await until(pilot, lambda: "Write the guide" not in text_of(pilot))
        await pilot.press("1")
        await until(pilot, lambda: "carol" in text_of(pilot) and "alice" not in text_of(pilot))


async def test_notices_are_shown_on_demand(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path, size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("3")
        await until(pilot, "We ship on Friday.")
        assert "asks to use Bash" not in text_of(pilot)
        await pilot.press("n")
        await until(pilot, "asks to use Bash")
        await pilot.press("n")
        await until(pilot, lambda: "asks to use Bash" not in text_of(pilot))


async def test_the_mouse_does_what_keys_do(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await pilot.click("#tab-tasks")
        await until(pilot, "Ready (1)")
        await pilot.click("#board", offset=(10, 3))
        await pilot.click("#board", offset=(10, 3))
        await until(pilot, "Task #4")
        await pilot.press("escape")
        await pilot.click("#tab-members")
        await pilot.click(DataTable, offset=(3, 3))
        await pilot.click(DataTable, offset=(3, 3))
        await until(pilot, "driver scripted")


async def test_a_transcript_is_read_as_it_grows(tmp_path: Path, team: Team) -> None:
    place = ProcessRecord.new(backend="subprocess", host=host_name(), pid=2**22 + 1, start="gone")
    await hire(team, "dan", place=place)
    async with open_app(at(tmp_path)) as bullpen_app:
        path = await bullpen_app.supervisor("alpha").transcript("dan")
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await pilot.press("end", "enter")
        await until(pilot, "has no transcript yet")
        path.parent.mkdir(parents=True)
        with path.open("a") as file:
            for number in range(60):
                file.write(json.dumps({"kind": "said", "text": f"[red]line {number}[/]"}) + "\n")
        await until(pilot, "said: [red]line 59[/]")
        with path.open("a") as file:
            file.write(json.dumps({"kind": "tool", "name": "Bash", "input": {"c": "ls"}}) + "\n")
        await until(pilot, "tool: Bash: ls")
        await pilot.press("2")
        await until(pilot, "No messages yet.")
        await pilot.press("escape")
        await until(pilot, "5 Log")


async def test_only_cells_that_changed_are_written(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[object, object]] = []
    real = DataTable.update_cell

    def noting(table: DataTable[Text], row: str, column: str, value: Text, **more: bool) -> None:
        written.append((row, column))
        real(table, row, column, value, **more)

    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        monkeypatch.setattr(DataTable, "update_cell", noting)
        await beat(team, "bob", "working", ms=now_ms(), tool="Read", detail="parser.py")
        await until(pilot, "Read parser.py")
        changed = {cell for cell in written if cell[1] != "since"}
        assert changed == {("bob", "doing")}


async def test_the_keys_of_claude_code_select_members_and_show_the_tasks(
    team: Team, tmp_path: Path
) -> None:
    await team.tasks.add("Parse the config", by="team-lead")

    def chosen(pilot: Pilot[None]) -> str:
        table = pilot.app.screen.query_one("#members", MembersPane).main
        assert isinstance(table, DataTable)
        return str(table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key.value)

    def is_chosen(pilot: Pilot[None], name: str) -> bool:
        return chosen(pilot) == name

    async with opened(tmp_path) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        assert chosen(pilot) == "team-lead"
        await pilot.press("ctrl+t")
        await until(pilot, "Parse the config")
        # Also from another page, and no further than the last and the first member.
        for keys, name in (
            (["shift+down"], "alice"),
            (["shift+down", "shift+down"], "bob"),
            (["shift+up"], "alice"),
            (["shift+up", "shift+up"], "team-lead"),
        ):
            await pilot.press(*keys)
            await until(pilot, partial(is_chosen, pilot, name))


async def test_the_mode_of_an_agent_is_picked(team: Team, tmp_path: Path) -> None:
    async def mode() -> str:
        return (await team.agents.get("alice"))[1].mode

    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "bob")
        await pilot.press("shift+down", "shift+tab")
        await until(pilot, "Mode of alice?")
        await until(pilot, "default  now")
        await pilot.press("escape")
        await pilot.press("shift+tab")
        await until(pilot, "Mode of alice?")
        await pilot.press(*"accept", "enter")
        await until(pilot, lambda: is_told(pilot, "alice is in mode acceptEdits from its next"))
        assert await mode() == "acceptEdits"
        # Nobody runs the lead, so there is no mode to change.
        await pilot.press("shift+up", "shift+tab")
        await until(pilot, lambda: is_told(pilot, "Bullpen does not run it"))


async def test_themes_go_round(tmp_path: Path) -> None:
    await small_team(tmp_path)
    async with opened(tmp_path) as pilot:
        await ready(pilot)
        before = pilot.app.theme
        await pilot.press("T")
        await until(pilot, lambda: pilot.app.theme != before)
        await pilot.press("q")
        await pilot.pause()
        assert not pilot.app.is_running


async def test_a_question_is_answered_in_words(tmp_path: Path, team: Team) -> None:
    colour = {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}
    request = await team.approvals.ask_question([colour], by="alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await on_waiting(pilot, "2. Blue")
        await pilot.press("a")
        await until(pilot, "Your answer:")
        await pilot.press(*"Green", "ctrl+s")
        found = await answered(pilot, team, request)
        assert found.state == "approved" and (found.answer or {})["feedback"] == "Green"
