"""`bullpen cost`, `bullpen team limits` and `bullpen task budget`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import Result

from bullpen.app import Settings, open_teams
from bullpen.protocol.agent import AgentSpec, Spent
from bullpen.protocol.names import LEAD

Run = Callable[..., Result]
Ok = Callable[..., str]


def account(home: Path, *, limits: dict[str, Any] | None = None) -> None:
    """A team with a task, two agents, one of which has left, and what they used."""

    async def make() -> None:
        async with open_teams(Settings(home=home, team="alpha", agent=LEAD)) as teams:
            await teams.create("alpha")
            team = teams.open("alpha")
            await team.tasks.add("Write the parser", by=LEAD, budget={"usd": 1.0})
            for name, model in (("ann", "anthropic:m1"), ("bob", "openai:m2")):
                spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/", model=model)
                await team.agents.register(name, spec, by=LEAD, nonce=f"n-{name}")
                await team.agents.begin_turn(name, nonce=f"n-{name}")
            rows = {
                1: Spent.new(
                    task="1",
                    model="anthropic:m1",
                    requests=3,
                    input_tokens=2_000,
                    output_tokens=400,
                    cache_read_tokens=8_000,
                    cost_usd=0.75,
                ),
                2: Spent.new(
                    requests=1, model="anthropic:m1", input_tokens=100, cost_usd=0.25, unpriced=1
                ),
            }
            await team.agents.spend("ann", nonce="n-ann", reports=rows, task=None)
            row = Spent.new(requests=1, model="openai:m2", input_tokens=50, cost_usd=0.5)
            await team.agents.spend("bob", nonce="n-bob", reports={1: row}, task=None)
            await team.roster.remove("bob", by=LEAD)
            await team.agents.limit(by=LEAD, **(limits or {}))

    anyio.run(make)


def test_a_team_that_has_used_nothing_says_so(ok: Ok) -> None:
    ok("team", "create", "alpha")
    shown = ok("cost")
    assert shown.startswith("Team alpha has used nothing yet.\n")
    assert "turns   0     500" in shown or "turns  0     500" in shown
    assert json.loads(ok("cost", "--json"))["agents"] == []


def test_the_account_of_a_team_is_read_from_top_to_bottom(ok: Ok, home: Path) -> None:
    """R-5.4: who, for what, how much of it coordination, what is left."""
    account(home, limits={"usd": 1.5, "tokens": 10_000})
    shown = ok("cost")
    assert shown.splitlines()[0] == "Team alpha: 2 turns, 2.5k tokens, $1.500+?, 5 requests"
    for line in (
        "ann    1      4         2.5k    8.0k    $1.000+?  100%   -",
        "bob    1      1         50      0       $0.500    0%     has left",
        "#1    0      3         2.4k    8.0k    $0.750    99%    Write the parser",
        "-     2      2         150     0       $0.750+?  1%     coordination",
        "Coordination:    1% of the tokens",
        "No known price:  1 request",
        "From caches:     79% of what was read",
        "team alpha  money   $1.50   $1.50  $0.00",
        "task #1     money   $0.750  $1.00  $0.250",
        "Limit reached: the money of team alpha.",
    ):
        assert line in shown, shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_tables_can_be_had_one_by_one(ok: Ok, home: Path) -> None:
    account(home)
    assert ok("cost", "--by", "model").split()[:2] == ["MODEL", "TURNS"]
    assert "openai:m2" in ok("cost", "--by", "model")
    assert "#1" in ok("cost", "--by", "task")
    assert "bob" not in ok("cost", "ann")
    assert "bob in team alpha: 1 turn" in ok("cost", "bob")


def test_the_json_of_the_account_adds_up(ok: Ok, home: Path) -> None:
    account(home, limits={"tokens": 5_000})
    value = json.loads(ok("cost", "--json"))
    for table in ("agents", "tasks", "models"):
        assert sum(row["costUsd"] for row in value[table]) == value["total"]["costUsd"] == 1.5
    assert value["coordination"]["requests"] == 2
    tokens = next(row for row in value["budgets"] if row["limit"] == "tokens")
    assert (tokens["used"], tokens["left"], tokens["reached"]) == (2_550, 2_450, False)
    assert set(json.loads(ok("cost", "--by", "task", "--json"))) >= {"tasks", "total"}
    assert "agents" not in json.loads(ok("cost", "--by", "task", "--json"))


def test_nobody_of_that_name_is_not_found(run: Run, home: Path) -> None:
    account(home)
    result = run("cost", "zoe")
    assert result.exit_code == 3
    assert "There is no member 'zoe'" in result.stderr


def test_limits_are_shown_changed_and_taken_away(ok: Ok, run: Run, home: Path) -> None:
    account(home)
    shown = ok("team", "limits", "--usd", "5", "--agents", "8", "--seconds", "90")
    for line in ("agents:     8 alive at once", "usd:        $5.00", "seconds:    1m 30s"):
        assert line in shown
    shown = ok("team", "limits", "--memory-mb", "2000", "--processes", "50")
    assert "memory:     2,000 MB of a machine, for all its agents" in shown
    assert "processes:  50 processes of a machine, for all its agents" in shown
    assert "memory:     not limited" in ok("team", "limits", "--memory-mb", "0")
    assert run("team", "limits", "--agent", "ann", "--processes", "3").exit_code == 2
    assert json.loads(ok("team", "limits", "alpha", "--usd", "0", "--json")).get("usd") is None
    assert "tokens:   20.0k" in ok("team", "limits", "--agent", "ann", "--tokens", "20000")
    assert run("team", "limits", "--agent", "ann", "--depth", "3").exit_code == 2


def test_the_budget_of_a_task_is_shown_and_changed(ok: Ok) -> None:
    ok("team", "create", "alpha")
    ok("task", "add", "Dear", "--budget-usd", "0.5", "--budget-turns", "3")
    assert ok("task", "budget", "1") == "Task #1 may use 3 turns, $0.500.\n"
    assert ok("task", "budget", "1", "--turns", "0") == "Task #1 may use $0.500.\n"
    assert "as much as the team may" in ok("task", "budget", "1", "--usd", "0")


@pytest.mark.parametrize(
    "words",
    [
        ["team", "limits", "--usd", "100"],
        ["team", "limits", "--processes", "900"],
        ["team", "limits", "--agent", "ann", "--tokens", "9"],
        ["task", "budget", "1", "--usd", "9"],
    ],
)
def test_an_agent_cannot_raise_what_may_be_used(home: Path, words: list[str]) -> None:
    """R-5.3: not from its shell either."""
    account(home, limits={"usd": 1.0})
    env = {
        **os.environ,
        "BULLPEN_NONCE": "n-ann",
        "BULLPEN_AGENT": "ann",
        "BULLPEN_TEAM": "alpha",
    }
    done = subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "--json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["reason"] == "not_a_person"
