"""The first picture of a team: it waits neither for the log nor for what only keys need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.team_screen import TeamScreen
from bullpen.protocol.changes import Event
from bullpen.store.files.store import FileStore
from support.doors.tui_screens import enter, text_of, until
from support.doors.tui_teams import at, small_team

LATER = (
    "bullpen.app.app",
    "bullpen.agents.runner",
    "bullpen.agents.drivers",
    "bullpen.agents.tools.toolbox",
    "bullpen.doors.actions.person_actions",
    "textual.widgets._markdown",
    "textual.widgets._data_table",
    "textual.widgets._footer",
)
"""What only a key or a plan needs; together it takes as long as everything else."""


def test_what_only_keys_need_is_imported_later() -> None:
    code = "import json, sys, bullpen.doors.tui.app; print(json.dumps(list(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = json.loads(answer.stdout)
    assert [name for name in loaded if name.startswith(LATER)] == []


async def test_names_and_tasks_are_shown_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small_team(tmp_path)
    go_on, read = anyio.Event(), FileStore.recent_events

    async def slowly(store: FileStore, team: str) -> list[Event]:
        await go_on.wait()
        return await read(store, team)

    monkeypatch.setattr(FileStore, "recent_events", slowly)
    async with (
        LateApp(at(tmp_path)) as late_app,
        TeamApp(late_app, team="alpha").run_test(size=(100, 30)) as pilot,
    ):
        await until(pilot, "1/6 tasks")
        await until(pilot, "alice")
        await until(pilot, "Write the guide")
        screen = pilot.app.screen
        assert isinstance(screen, TeamScreen)
        await enter(pilot, "/log")
        await until(pilot, "Reading the log.")
        go_on.set()
        await until(pilot, lambda: "Reading the log." not in text_of(pilot))
        assert screen.looked_at is not None
        assert screen.looked_at.story.has_log
        assert screen.looked_at.story.told
