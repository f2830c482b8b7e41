"""`bullpen cost`, `bullpen team limits` and `bullpen task budget`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from support.doors.cost_account import account

Run = Callable[..., Result]
Ok = Callable[..., str]


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
        "From caches:     79% of the input",
        "team alpha  money   $1.50   $1.50  $0.00",
        "task #1     money   $0.750  $1.00  $0.250",
        "Limit reached: the money of team alpha.",
    ):
        assert line in shown, shown
    assert max(map(len, shown.splitlines())) <= 80


def test_figures_that_contain_an_estimate_say_so(ok: Ok, home: Path) -> None:
    account(home, estimated=2)
    shown = ok("cost")
    assert shown.splitlines()[0] == "Team alpha: 2 turns, ~2.5k tokens, ~$1.500+?, 5 requests"
    assert "Estimated:       2 requests that broke off" in shown
    assert "has left" in shown and "~$0.500" not in shown, "bob's figures contain none"
    value = json.loads(ok("cost", "--json"))
    assert value["total"]["estimated"] == 2
    assert "estimated" not in next(row for row in value["agents"] if row["name"] == "bob")


def test_what_the_models_were_told_is_shown_by_kind_and_as_an_estimate(ok: Ok, home: Path) -> None:
    """R-5.4: the share of coordination, and what it consists of."""
    account(
        home,
        told={
            "digest_tokens": 1_200,
            "mail_tokens": 800,
            "tool_tokens": 1_900,
            "reminder_tokens": 100,
        },
    )
    shown = ok("cost")
    for line in (
        "Told models:     ~1.2k digest (30%), ~800 mail, ~1.9k tools, ~100 reminders",
        "Estimated:       what models were told (4 characters a token)",
    ):
        assert line in shown, shown
    assert max(map(len, shown.splitlines())) <= 80
    value = json.loads(ok("cost", "--json"))
    assert value["told"] == {
        "digest": 1_200,
        "mail": 800,
        "tools": 1_900,
        "reminders": 100,
        "digestShare": 0.3,
        "estimated": "4 characters a token",
    }
    assert value["total"]["digestTokens"] == 1_200


def test_a_kind_that_is_not_known_is_absent_and_not_0(ok: Ok, home: Path) -> None:
    account(home, told={"digest_tokens": 300, "mail_tokens": 100})
    assert "Told models:     ~300 digest (75%), ~100 mail\n" in ok("cost")
    told = json.loads(ok("cost", "--json"))["told"]
    assert "tools" not in told and "reminders" not in told


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
    assert "has no member 'zoe'" in result.stderr


def test_limits_are_shown_changed_and_taken_away(ok: Ok, run: Run, home: Path) -> None:
    account(home)
    shown = ok("team", "limits", "--usd", "5", "--agents", "8", "--seconds", "90")
    for line in ("agents:     8 alive at once", "usd:        $5.00", "seconds:    1m 30s"):
        assert line in shown
    shown = ok("team", "limits", "--memory-mb", "2000", "--processes", "50")
    assert "memory:     2,000 MB per machine, for all its agents" in shown
    assert "processes:  50 processes per machine, for all its agents" in shown
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
    assert "as much as the team" in ok("task", "budget", "1", "--usd", "0")
