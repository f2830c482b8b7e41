"""What a run that is not over says to type next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.doors.cli.output.next_steps import command_to_go_on, next_steps
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import Start, Watcher, watch_on_screen
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Origin, TeamFacts
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.view.summary import summed_up
from support.runs.merging_team import hand_in, team_that_merges


def lead_view(**more: Any) -> AgentView:
    plain: dict[str, Any] = {name.name: None for name in fields(AgentView)}
    plain |= {"name": LEAD, "lead": True, "state": "failed", "driver": "native"}
    return AgentView(**{**plain, "actions": (), "tasks": (), "usage": Usage.new(), **more})


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


@pytest.mark.anyio
async def test_after_a_run_that_is_over_the_next_words_go_to_the_same_team() -> None:
    progress = replace(await progress_of(None), agents=[lead_view(end="finished")])
    over = Outcome(0, "done", "", "shop", Usage.new(turns=1), {})
    assert next_steps(over, "", progress, []) == [
        "bullpen run -t shop 'WHAT NEXT'", "bullpen logs team-lead -t shop",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        (
            "Anthropic does not accept the API key. Set KEY to a valid API key, then start it.",
            "bullpen run -t shop   continues with the right key",
        ),
        (
            "Anthropic does not know the model. Check the name of the model.",
            "bullpen run -t shop --model MODEL 'GOAL'   starts again with another model",
        ),
        ("It crashed.", "bullpen run -t shop"),
    ],
)
@pytest.mark.anyio
async def test_a_run_that_failed_at_once_says_how_to_continue_and_not_what_it_did(
    cause: str, first: str
) -> None:
    progress = replace(await progress_of(None), agents=[lead_view(end="failed", cause=cause)])
    summary = summed_up(progress.snapshot, [])
    failed = Outcome(1, "failed", "", "shop", Usage.new(turns=1), {}, account=summary)
    assert next_steps(failed, "", progress, []) == [first, "bullpen ps -t shop"]


@pytest.mark.anyio
async def test_a_lead_that_somebody_stopped_needs_words_to_go_on() -> None:
    progress = replace(await progress_of(None), agents=[lead_view(end="stopped")])
    stopped = Outcome(2, "unfinished", "", "shop", Usage.new(turns=1), {})
    assert next_steps(stopped, "", progress, [])[0] == "bullpen run -t shop 'WHAT NEXT'"


@pytest.mark.anyio
async def test_an_end_says_that_the_gate_holds_finished_work_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    team = await team_that_merges()
    await hand_in(team, passed=False)
    watcher = Watcher(Page(), "Sell")
    watcher.progress = Progress("night", await team.snapshot(), [])
    stopped = Outcome(130, "interrupted", "", "night", Usage.new(), {"completed": 1})
    watcher.ended(stopped, next_steps=next_steps(stopped, "", watcher.progress, []))
    said = capsys.readouterr().out
    assert "tasks:  1 queued" in said
    assert "needs you: 1 task waits to be merged: main fails its gate" in said
    assert "Try next:\n  bullpen merge log -t night\n" in said
