"""`bullpen` alone: the team here, and the command to run next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.doors.cli.start.overview import next_steps
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from support.asking import ask, hire, in_team

Run = Callable[..., Any]
Ok = Callable[..., str]
PLACE = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=1, start="1")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(home: Path, name: str) -> None:
    hire(home, name)
    in_team(home, lambda team: team.agents.ready(name, nonce=f"calc-{name}", place=PLACE))


def commands(shown: str) -> list[str]:
    """The commands that it offers."""
    return [line.strip().split("  ")[0] for line in shown.splitlines() if "  bullpen " in line]


def test_without_a_team_it_says_what_to_do_first(ok: Ok, here: Path, as_json: Run) -> None:
    assert ok().startswith("No team yet.")
    assert commands(ok()) == ["bullpen demo", "bullpen run 'GOAL'", "bullpen init"]
    (here / "TEAM.toml").write_text("", "utf-8")
    assert commands(ok()) == ["bullpen up", "bullpen demo", "bullpen run 'GOAL'"]
    told = as_json()
    assert (told["team"], told["teams"]) == (None, [])
    assert told["next"] == ["bullpen up", "bullpen demo", "bullpen run 'GOAL'"]


def test_where_no_team_works_it_names_the_list_of_teams(
    ok: Ok, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        ok("team", "create", name)
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here.parent)
    shown = ok()
    assert shown.startswith("There is no team in this directory yet.")
    assert commands(shown)[-1] == "bullpen team list"


def test_a_new_team_is_given_work_and_an_agent(ok: Ok) -> None:
    ok("team", "create", "calc", "--description", "Write a calculator")
    shown = ok()
    assert shown.startswith("calc: Write a calculator\n")
    assert "  no agents\n  tasks: none\n" in shown
    first, second = commands(shown)
    assert first == "bullpen task add 'SUBJECT' -t calc"
    assert second == "bullpen spawn alice 'PROMPT' -t calc"
    ok("task", "add", "Parse")
    assert commands(ok()) == ["bullpen spawn alice -t calc"]


def test_what_waits_for_you_comes_first(ok: Ok, home: Path, as_json: Run) -> None:
    ok("team", "create", "calc")
    ok("task", "add", "Parse")
    start(home, "alice")
    request = ask(home, "alice")
    shown = ok()
    assert "1 waiting for you:" in shown
    assert "git push origin main" in shown
    assert "  tasks: 1 ready\n" in shown
    handle = next(line.split()[0] for line in shown.splitlines() if " permission " in line)
    assert commands(shown) == [f"bullpen approve {handle} -t calc", "bullpen tui -t calc"]
    told = as_json()
    assert told["waiting"] == [request.id]
    assert list(told["agents"]) == ["alice"]
    ask(home, "alice", given={"command": "git push origin next"})
    assert commands(ok())[0] == "bullpen requests -t calc"
    ok("approve", handle)


def test_a_team_that_ended_is_continued_or_summed_up(ok: Ok, home: Path, here: Path) -> None:
    ok("team", "create", "calc")
    ok("task", "add", "Parse")
    start(home, "alice")

    async def end(team: Any) -> None:
        nonce = (await team.agents.get("alice"))[1].nonce
        await team.agents.end("alice", "stopped", by="team-lead", nonce=nonce, cause="enough")

    in_team(home, end)
    assert commands(ok()) == ["bullpen run -t calc", "bullpen summary -t calc"]
    (here / "TEAM.toml").write_text("", "utf-8")
    assert commands(ok()) == ["bullpen up", "bullpen summary -t calc"]
    ok("task", "claim", "1")
    ok("task", "done", "1")
    assert commands(ok()) == ["bullpen summary -t calc"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("end", "first"),
    [("lost", "bullpen run -t calc"), ("finished", "bullpen run -t calc 'WHAT NEXT'")],
)
async def test_a_lead_whose_terminal_was_closed_continues(end: Any, first: str) -> None:
    teams = Teams(MemoryStore())
    await teams.create("calc")
    team = teams.open("calc")
    spec = AgentSpec.new(driver="scripted", backend="in-process", cwd="/")
    await team.agents.register(LEAD, spec, by=LEAD, nonce="n")
    await team.tasks.add("Parse", by=LEAD)
    await team.tasks.claim("1", by=LEAD)
    await team.tasks.done("1", by=LEAD)
    await team.agents.end(LEAD, end, by=LEAD, nonce="n", cause="closed")
    snapshot, views = await RosterView(team).look()
    steps = [command for command, _ in next_steps(snapshot, views, which=" -t calc", has_file=True)]
    assert steps == [first, "bullpen summary -t calc"]


def test_a_team_that_is_named_and_is_not_there_is_an_error(run: Run, ok: Ok) -> None:
    assert run("-t", "nobody").exit_code == 3
    ok("team", "create", "calc")
    assert ok("-t", "calc").startswith("calc\n")


def test_help_stays_the_help(run: Run) -> None:
    assert run("--help").stdout.startswith("Usage: bullpen [OPTIONS] COMMAND [ARGS]")
    assert "error: " in run("--nothing").stderr


def test_a_long_goal_and_many_members_fit(ok: Ok, home: Path) -> None:
    ok("team", "create", "calc", "--description", "lengthy\n" * 100)
    for number in range(12):
        start(home, f"a{number}")
    shown = ok()
    assert shown.splitlines()[0].endswith("lengthy lengthy…"), "cut after a word"
    assert max(map(len, shown.splitlines())) <= 120
    assert "  and 2 more: bullpen ps\n" in shown
