"""`bullpen policy`, and the options that say what agents may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.agent import AgentSpec
from support.asking import in_team, stored

Run = Callable[..., Any]
Ok = Callable[..., str]
QUIET = """
[[agents.alice.turns]]
repeat = true
steps = [{say = "Here."}]
"""


@pytest.fixture(autouse=True)
def calc(ok: Ok) -> None:
    """A team."""
    ok("team", "create", "calc")


@pytest.fixture
def quiet(tmp_path: Path, run: Run) -> Iterator[tuple[str, ...]]:
    """The words that spawn an agent which does nothing; it is stopped at the end."""
    path = tmp_path / "script.toml"
    path.write_text(QUIET, "utf-8")
    yield ("spawn", "alice", "--driver", "scripted", "--script", str(path))
    run("stop", "--all", "--grace", "1", "-t", "calc")


def _spec(home: Path) -> AgentSpec:
    return in_team(home, lambda team: team.agents.get("alice"))[1].spec


def test_what_is_said_at_spawn_is_stored_and_nothing_else(
    as_json: Callable[..., Any], home: Path, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    """R-4.2: stored at spawn."""
    as_json(
        *quiet, "--mode", "acceptEdits", "--allow", "Bash(git:*)", "--allow", "Bash(make)",
        "--deny", "Read(.env)", "--ask", "Bash(git push:*)", "--dir", str(tmp_path),
        "--approver", "lead", "--plan-rule", "grep -q tests", "--after-plan", "default",
        "--deadline", "5",
    )  # fmt: skip
    spec = _spec(home)
    policy = spec.policy
    assert spec.mode == "acceptEdits"
    assert (policy.allow, policy.deny) == (["Bash(git:*)", "Bash(make)"], ["Read(.env)"])
    assert (policy.ask, policy.directories) == (["Bash(git push:*)"], [str(tmp_path)])
    assert (policy.approver, policy.deadline_s) == ("lead", 5.0)
    assert (policy.plan_approver, policy.plan_rule) == ("rule", "grep -q tests")
    assert policy.after_plan == "default"
    assert policy.sources["Bash(make)"] == "the command line"
    assert policy.sandbox is None


def test_without_a_terminal_nobody_is_waited_for_and_that_is_said(
    run: Run, home: Path, quiet: tuple[str, ...]
) -> None:
    """R-4.1: headless requests resolve by policy."""
    result = run(*quiet)
    assert result.exit_code == 0
    assert result.stderr.startswith(
        "warning: there is no terminal, so requests of alice are denied"
    )
    assert "--approver human" in result.stderr
    assert _spec(home).policy.approver == "policy"


@pytest.mark.parametrize(
    ("words", "approver"),
    [
        (("--approver", "human"), "human"),
        (("--approver", "lead"), "lead"),
        (("--allow", "Bash(git:*)"), "policy"),
        (("--mode", "dontAsk"), "policy"),
        (("--answers", __file__), "policy"),
    ],
)
def test_who_said_how_it_is_answered_is_not_warned(
    ok: Ok, home: Path, quiet: tuple[str, ...], words: tuple[str, ...], approver: str
) -> None:
    ok(*quiet, *words)
    assert _spec(home).policy.approver == approver


def test_at_a_terminal_a_person_is_asked(
    at_terminal: Callable[..., tuple[int, str]], home: Path, quiet: tuple[str, ...]
) -> None:
    code, shown = at_terminal(*quiet)
    assert (code, "warning" in shown) == (0, False)
    assert "bullpen requests --watch -t calc" in shown
    assert _spec(home).policy.approver == "human"


ASKS = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "touch made"}, may_fail = true},
  {tool = "Finish", input = {summary = "Done."}},
]
"""


def test_a_run_without_a_terminal_denies_what_it_would_ask(
    spawn: Callable[..., Any], tmp_path: Path
) -> None:
    """R-4.1: nobody is there, so what no rule allows is denied, at once."""
    path = tmp_path / "asks.toml"
    path.write_text(ASKS, "utf-8")
    words = ("run", "Try", "--driver", "scripted", "--script", str(path),
             "--cwd", str(tmp_path))  # fmt: skip
    done = spawn(*words, "-t", "first")
    assert done.returncode == 0, done.stderr
    assert "warning: there is no terminal" in done.stderr
    assert "a rule denied team-lead: Bash touch made" in done.stdout
    assert not (tmp_path / "made").exists()
    spawn(*words, "-t", "second", "--allow", "Bash(touch:*)")
    assert (tmp_path / "made").exists()


def test_a_run_says_what_waits_for_a_person_and_goes_on_when_it_is_answered(
    follow: Callable[..., Any], ok: Ok, tmp_path: Path, home: Path
) -> None:
    """R-4.1: a prompt answered from a second terminal."""
    path = tmp_path / "asks.toml"
    path.write_text(ASKS, "utf-8")
    running = follow("run", "Try", "-t", "calc", "--driver", "scripted", "--script", str(path),
                     "--cwd", str(tmp_path), "--approver", "human")  # fmt: skip
    while " -> " not in (line := running.line()):
        assert "waits: permission" not in line
    said, typed = line.split(" -> bullpen ")
    assert said.endswith("  team-lead waits for you: Bash touch made")
    ok(*typed.split())
    code, _ = running.ended()
    assert code == 0
    assert (tmp_path / "made").exists()
    (request,) = in_team(home, lambda team: team.approvals.all()).values()
    assert stored(home, request).used_ms is not None
