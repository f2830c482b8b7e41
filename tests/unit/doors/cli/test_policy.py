"""`bullpen policy`, and the options that say what agents may do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from bullpen.doors.cli.options.policy import ModeName, PolicyOptions
from bullpen.protocol.policy import MODES, Policy
from support.asking import ask, ask_plan, hire, in_team

Run = Callable[..., Any]
Ok = Callable[..., str]

POLICY = Policy.new(
    deny=["Read(.env)"],
    ask=["Bash(git push:*)"],
    allow=["Bash(git:*)"],
    directories=["/srv/data"],
    deadline_s=30,
    sources={"Read(.env)": "/etc/rules.json", "Bash(git:*)": "from team-lead"},
)
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


def test_the_modes_of_the_options_are_all_the_modes_there_are() -> None:
    assert get_args(ModeName) == MODES


def test_the_effective_table_names_rules_sources_tools_and_who_answers(ok: Ok, home: Path) -> None:
    """R-4.2: what an agent may do can be seen."""
    hire(home, "alice", policy=POLICY.raw, tools=["Read", "Bash(git:*)"])
    shown = ok("policy", "show", "alice")
    for line in (
        "mode:         default (asks before it changes files or runs commands)",
        "answers:      a person; denied after 30 s without an answer",
        "plans:        the lead, or a person; then at most mode default",
        "also inside:  /srv/data",
        "tools:        Read, Bash(git:*)",
        "sandbox:      none: its commands can reach what you can reach",
        "deny    Read(.env)        /etc/rules.json",
        "ask     Bash(git push:*)  its spawn",
        "allow   Bash(git:*)       from team-lead",
        "ask     ask      change files",
    ):
        assert line in shown, line
    assert "Write" in shown.split("not:", 1)[1]
    assert "(not in its list of tools)" in shown
    order = [shown.index(rule) for rule in ("Read(.env)", "Bash(git push:*)  ", "Bash(git:*)   ")]
    assert order == sorted(order)


def test_what_was_granted_since_the_spawn_names_who_did(
    ok: Ok, as_json: Callable[..., Any], home: Path
) -> None:
    hire(home, "alice")
    request = ask(home, "alice")
    ok("approve", "--always")
    (rule,) = as_json("policy", "show", "alice")["rules"]
    assert rule == {
        "effect": "allow",
        "rule": "Bash(git push:*)",
        "source": f"you, for good ({request.id})",
    }


def test_a_plan_that_waits_and_the_mode_after_it_are_shown(ok: Ok, home: Path) -> None:
    hire(home, "bob", mode="plan")
    request = ask_plan(home, "bob", "# Mend it")
    assert f"waiting: bullpen requests {request.id}" in ok("policy", "show", "bob")
    ok("approve")
    in_team(home, lambda team: team.plans.settle("bob", nonce="calc-bob"))
    shown = ok("policy", "show", "bob")
    assert "mode:      acceptEdits" in shown
    assert f"plan; since then: team-lead approved its plan ({request.id})" in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("Bash", "git log"), 0, "allowed: Bash git log"),
        (("Bash", "git push origin"), 6, "asks first: Bash git push origin"),
        (("Bash", "git log && curl x"), 6, "asks first"),
        (("Read", ".env"), 2, "denied: Read .env"),
        (("Read", "src/main.py"), 0, "allowed: Read src/main.py"),
        (("Read", "/etc/passwd"), 6, "asks first"),
        (("Edit", "main.py"), 6, "asks first"),
        (("TaskList", "--input", "{}"), 0, "allowed: TaskList"),
        (("Finish", "--input", "{}"), 2, "it does not have the tool: only for the lead"),
        (("mcp__web__get", "--input", '{"url": "x"}'), 6, "asks first"),
    ],
)
def test_a_check_says_what_would_happen_and_exits_with_it(
    run: Run, home: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    hire(home, "alice", policy=POLICY.raw)
    result = run("policy", "check", "alice", *words)
    assert (result.exit_code, result.stdout.startswith(said) or said in result.stdout) == (
        code,
        True,
    ), result.output
    assert in_team(home, lambda team: team.approvals.all()) == {}


def test_where_code_answers_a_check_says_how(run: Run, home: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.toml"
    answers.write_text('[answers]\nallow = ["Bash(make:*)"]\n', "utf-8")
    policy = Policy.new(approver="policy", answers=str(answers))
    hire(home, "alice", policy=policy.raw)
    assert run("policy", "check", "alice", "Bash", "make test").exit_code == 0
    result = run("policy", "check", "alice", "Bash", "rm -rf x", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["effect"], told["outcome"]) == ("ask", "deny")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nobody"), 3),
        (("show", "team-lead"), 3),
        (("check", "alice", "Bash"), 2),
        (("check", "alice", "Hammer", "x"), 2),
        (("check", "alice", "Finish", "x"), 2),
        (("check", "alice", "Bash", "--input", "[]"), 2),
        (("check", "alice", "Bash", "--input", "{"), 2),
    ],
)
def test_what_cannot_be_shown_or_checked_is_an_error(
    run: Run, home: Path, words: tuple[str, ...], code: int
) -> None:
    hire(home, "alice")
    result = run("policy", *words)
    assert result.exit_code == code
    assert "error: " in result.stderr
    assert "hint: " in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--mode", "root"),
        ("--allow", "Bash(git"),
        ("--deny", "Hammer(x)"),
        ("--dir", "/no/such/directory"),
        ("--answers", "/no/such/file"),
        ("--answers", __file__, "--approver", "human"),
        ("--plan-approver", "rule"),
        ("--plan-rule", "true", "--plan-approver", "auto"),
        ("--network",),
        ("--after-plan", "plan"),
        ("--deadline", "0"),
    ],
)
def test_a_policy_that_cannot_be_starts_nobody(
    run: Run, home: Path, quiet: tuple[str, ...], words: tuple[str, ...]
) -> None:
    result = run(*quiet, *words)
    assert result.exit_code == 2, result.output
    assert [each.name for each in in_team(home, lambda team: team.roster.list())] == ["team-lead"]


def test_options_that_say_nothing_state_nothing() -> None:
    assert PolicyOptions().stated() == {}
    assert PolicyOptions(sandbox=False).stated() == {"sandbox": None}
    assert PolicyOptions(sandbox=True, network=True).stated() == {"sandbox": {"network": True}}
