"""What a run that is not over says to type next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import Start, Watcher, command_to_go_on, watch_on_screen
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Origin, TeamFacts
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams


async def progress_of(origin: Origin | None) -> Progress:
    teams = Teams(MemoryStore())
    facts = TeamFacts.new(origin=None if origin is None else origin.raw)
    await teams.create("shop", facts=facts)
    return Progress("shop", await teams.open("shop").snapshot(), [])


@pytest.mark.anyio
async def test_a_team_of_a_file_goes_on_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop" / "MY TEAM.toml"
    progress = await progress_of(Origin.new(file=str(file), digest="d"))
    monkeypatch.chdir(tmp_path)
    assert command_to_go_on(progress, "") is None, "the file is gone"
    file.parent.mkdir()
    file.touch()
    assert command_to_go_on(progress, " --home h") == "bullpen up 'shop/MY TEAM.toml' --home h"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command_to_go_on(progress, "") == f"bullpen up '{file}'"


@pytest.mark.anyio
async def test_a_team_without_a_file_has_no_such_command() -> None:
    assert command_to_go_on(await progress_of(None), "") is None
    assert command_to_go_on(None, "") is None


def test_after_a_finish_by_hand_the_tasks_that_are_left_go_on_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "TEAM.toml"
    file.touch()

    async def ended(*, left: bool) -> Progress:
        teams = Teams(MemoryStore())
        facts = TeamFacts.new(origin=Origin.new(file=str(file), digest="d").raw)
        await teams.create("shop", facts=facts)
        team = teams.open("shop")
        if left:
            await team.tasks.add("Write the parser", by=LEAD)
        return Progress("shop", await team.snapshot(), [])

    def said(*, left: bool) -> str:
        async def start(saw: Callable[[Progress], None]) -> Outcome:
            saw(await ended(left=left))
            return Outcome(0, "done", "", "shop", Usage.new(), {})

        async def show(start: Start) -> Outcome | None:
            return await start(lambda _: None)

        watch_on_screen(Watcher(Page(), "Sell"), show, start, elsewhere="")
        return capsys.readouterr().out

    assert f"Try next:\n  bullpen up {file}\n" in said(left=True)
    assert "bullpen up" not in said(left=False)
