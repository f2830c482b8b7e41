"""`bullpen requests`, `approve` and `deny`: people see exactly what they answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.agent import ProcessRecord
from support.asking import ask, ask_plan, hire, in_team, stored

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def calc(ok: Callable[..., str], home: Path) -> None:
    """A team with two agents that may ask."""
    ok("team", "create", "calc")
    hire(home, "alice")
    hire(home, "bob", mode="plan")


def test_what_waits_is_shown_whole_with_why_and_what_to_type(
    ok: Callable[..., str], home: Path
) -> None:
    """R-4.1: exact action, suggestions, deadline."""
    long = "git push origin main && " + " && ".join(f"echo {number}" for number in range(200))
    request = ask(home, "alice", given={"command": long, "timeout": 60})
    shown = ok("requests")
    assert "alice asks for Bash, 0s ago, 9m 5" in shown
    assert long in shown
    assert "timeout: 60" in shown
    assert "the mode default asks before anything is run" in shown
    assert "only a person" in shown
    assert "Bash(git push:*)" in shown
    assert f"bullpen approve {request.id[-4:]}\n" in shown
    assert f"bullpen deny {request.id[-4:]} 'WHY'" in shown


def test_nothing_that_waits_is_said_in_words(ok: Callable[..., str], home: Path) -> None:
    assert "No requests wait for an answer." in ok("requests")
    assert "No requests wait for an answer in team calc." in ok("requests", "-t", "calc")
    ask(home, "alice")
    ok("deny")
    assert "See 1 answered request: bullpen requests --all" in ok("requests")
    assert ok("requests", "--all").splitlines()[1].split()[1:3] == ["denied", "you"]


def test_a_change_to_a_file_is_shown_as_a_diff(
    ok: Callable[..., str], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n", "utf-8")
    change = {"file_path": "calc.py", "old_string": "a - b", "new_string": "a + b"}
    ask(home, "alice", "Edit", given=change)
    shown = ok("requests")
    assert "    -    return a - b\n    +    return a + b\n" in shown
    ok("deny")
    ask(home, "alice", "Write", given={"file_path": "new.py", "content": "one\ntwo\n"})
    assert "    new.py (a new file)\n    @@ -0,0 +1,2 @@\n    +one\n    +two\n" in ok("requests")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not a text file"),
        (lambda path: path.write_text("other", "utf-8"), "the text to replace is not in it now"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_compared_hides_nothing(
    ok: Callable[..., str],
    home: Path,
    tmp_path: Path,
    make: Callable[[Path], object],
    said: str,
) -> None:
    make(tmp_path / "odd")
    change = {"file_path": "odd", "old_string": "before", "new_string": "after"}
    ask(home, "alice", "Edit", given=change)
    shown = ok("requests")
    assert said in shown
    assert "    -before\n    +after\n" in shown


def test_what_agents_write_cannot_steer_the_terminal(ok: Callable[..., str], home: Path) -> None:
    ask(home, "alice", given={"command": "echo \x1b[2J; rm -rf x"})
    assert "echo \\x1b[2J; rm -rf x" in ok("requests")


def test_an_answer_to_an_agent_that_has_ended_says_so(run: Run, home: Path) -> None:
    request = ask(home, "alice")
    in_team(home, lambda t: t.agents.end("alice", "lost", by="team-lead", nonce="calc-alice"))
    given = run("approve", request.id[-4:])
    assert given.exit_code == 0
    assert "alice is not running, so it does nothing with your answer now." in given.stderr
    assert "bullpen team resume calc" in given.stderr


def test_an_approval_says_what_was_allowed_and_counts_for_this_call(
    ok: Callable[..., str], home: Path
) -> None:
    """R-4.1: answered by a person, once."""
    request = ask(home, "alice")
    assert ok("approve", request.id[-4:]) == (
        "Approved one call of Bash by alice:\n    git push origin main\n"
    )
    after = stored(home, request)
    assert (after.state, after.voice, after.answered_by) == ("approved", "human", "team-lead")
    shown = ok("requests", request.id)
    assert "approved by you" in shown
    assert "you (a person)" in shown
    assert "used:  not yet" in shown


def _choice(name: str, covers: str, content: str) -> dict[str, object]:
    rules = [{"toolName": "Bash", "ruleContent": content}]
    row = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
    return {"name": name, "covers": covers, "suggestions": [row]}


CHOICES = (
    _choice("line", "exactly this command line", "=git push origin main"),
    _choice("arguments", "`git push origin main` in any line", "git push origin main"),
    _choice("program", "`git push` with any harmless arguments", "git push:*"),
)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--choice", "1"], "Bash(=git push origin main)"),
        (["--choice", "arguments"], "Bash(git push origin main)"),
        (["--always", "--choice", "3"], "Bash(git push:*)"),
        (["--always"], "Bash(git push:*)"),
    ],
)
def test_always_is_chosen_by_number_or_name(
    ok: Callable[..., str], home: Path, words: list[str], rule: str
) -> None:
    """R-4.1: from exactly this line to the program; the page says what each covers."""
    ask(home, "alice", choices=CHOICES)
    shown = ok("requests")
    assert "--choice 1" in shown and "exactly this command line" in shown
    assert "program, the default of --always" in shown
    assert f"Allowed from now on: {rule}" in ok("approve", *words)
    _, agent = in_team(home, lambda team: team.agents.get("alice"))
    assert agent.standing.allow == [rule]


def test_a_choice_that_is_not_offered_is_refused(run: Run, home: Path) -> None:
    request = ask(home, "alice", choices=CHOICES)
    result = run("approve", "--choice", "4")
    assert result.exit_code == 2
    assert "1 (line), 2 (arguments), 3 (program)" in result.stderr
    assert stored(home, request).state == "pending"


def test_always_without_a_rule_is_refused(run: Run, home: Path) -> None:
    request = ask(home, "alice", suggestions=())
    result = run("approve", "--always")
    assert result.exit_code == 2
    assert 'No "always" rule fits' in result.stderr
    assert stored(home, request).state == "pending"


def test_the_input_may_be_changed_in_the_answer(run: Run, home: Path) -> None:
    """R-4.1: input may be edited in the answer."""
    request = ask(home, "alice")
    result = run("approve", "--input", "-", typed=b'{"command": "git push --dry-run"}')
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "Approved one call of Bash by alice:\n    git push origin main\n"
        "changed to:\n    git push --dry-run\n"
    )
    answer = stored(home, request).answer
    assert answer == {"updatedInput": {"command": "git push --dry-run"}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "{"), "The input is not JSON"),
        (("--input", "[]"), "must be a JSON object"),
        (("--input", '{"comand": "ls"}'), "Bash"),
        (("--input", '{"command": "curl -H [secret API_KEY]"}'), "placeholder for a secret"),
        (("--input", "{}", "--edit"), "not both"),
        (("--edit",), "An editor needs a terminal"),
        (("--mode", "default"), "is not a plan, so an answer cannot set a mode"),
        (("--mode", "root"), "--mode"),
    ],
)
def test_an_answer_that_cannot_be_leaves_the_question_open(
    run: Run, home: Path, words: tuple[str, ...], said: str
) -> None:
    request = ask(home, "alice")
    result = run("approve", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert stored(home, request).state == "pending"


def test_words_beside_a_yes_reach_the_agent(ok: Callable[..., str], home: Path) -> None:
    ask(home, "alice")
    place = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="then")
    in_team(home, lambda team: team.agents.ready("alice", nonce="calc-alice", place=place))
    assert ok("approve", "--message", "Not on Fridays").endswith("alice will see: Not on Fridays\n")
    assert "Not on Fridays" in ok("inbox", "alice")


def test_a_plan_is_read_whole_rejected_and_approved_with_a_mode(
    ok: Callable[..., str], home: Path
) -> None:
    """R-4.3: reject with feedback, a new id for the next, approve with a mode."""
    first = ask_plan(home, "bob", "# Rewrite\n\nAll of it.")
    assert "    # Rewrite\n\n    All of it.\n" in ok("requests")
    assert "stays in plan mode and can revise the plan" in ok("deny", first.id, "Too much")
    second = ask_plan(home, "bob", "# Mend\n\nOnly add().")
    assert "may work in mode default" in ok("approve", "--mode", "default")
    assert stored(home, second).answer == {"permissionMode": "default"}
    assert stored(home, first).state == "denied"
    assert "rejected by you" in ok("requests", first.id)


def test_a_mode_wider_than_the_spawn_allows_is_refused(run: Run, home: Path) -> None:
    """R-4.2, R-4.3."""
    request = ask_plan(home, "bob", "# Do anything")
    result = run("approve", "--mode", "bypassPermissions", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["reason"] == "too_wide"
    assert stored(home, request).state == "pending"


def test_a_request_that_is_not_there_is_not_found(run: Run, home: Path) -> None:
    unknown, none = run("approve", "nothing-like-that"), run("approve")
    assert (unknown.exit_code, "There is no request" in unknown.stderr) == (3, True)
    assert (none.exit_code, "No request waits for an answer." in none.stderr) == (3, True)


def test_which_request_is_meant_must_be_clear(run: Run, home: Path) -> None:
    ask(home, "alice")
    ask_plan(home, "bob", "# Plan")
    several = run("approve", "--json")
    assert several.exit_code == 2
    assert json.loads(several.stdout)["error"]["reason"] == "ambiguous"
    assert "(alice, permission)" in several.stderr
    assert run("deny", "perm-").exit_code == 0
    assert run("approve").exit_code == 0


def test_an_answer_as_a_teammate_does_not_count(run: Run, home: Path) -> None:
    """R-4.1: a wrong approver."""
    request = ask(home, "alice")
    for name in ("alice", "bob"):
        result = run("approve", "--as", name, "--json")
        assert json.loads(result.stdout)["error"]["reason"] == "not_approver", name
    assert stored(home, request).state == "pending"


def test_requests_of_all_teams_are_found_unless_one_is_named(
    ok: Callable[..., str], as_json: Callable[..., Any], home: Path
) -> None:
    ok("team", "create", "other")
    hire(home, "carol", team="other")
    request = ask(home, "carol", team="other")
    assert as_json("requests", "-t", "calc") == {"requests": []}
    (found,) = as_json("requests")["requests"]
    assert (found["team"], found["handle"], found["id"]) == ("other", request.id[-4:], request.id)
    ok("approve", found["handle"])
    assert stored(home, request, team="other").state == "approved"


def test_ps_and_team_show_say_who_waits_for_you(ok: Callable[..., str], home: Path) -> None:
    request = ask(home, "alice")
    for words in (("ps",), ("team", "show", "calc")):
        assert "alice waits for you: Bash git push origin main" in ok(*words)
    assert f"Answer: bullpen approve {request.id[-4:]}\n" in ok("ps")


def test_a_question_is_shown_with_its_options_and_answered_in_words_or_by_number(
    ok: Callable[..., str], run: Run, home: Path
) -> None:
    colour = {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}
    request = in_team(home, lambda t: t.approvals.ask_question([colour], by="alice"))
    shown = ok("requests")
    assert "alice asks you, 0s ago" in shown and "only a person" in shown
    assert "    Which colour?\n      1. Red\n      2. Blue\n" in shown
    assert f"bullpen approve {request.id[-4:]} --message 'YOUR ANSWER'" in shown
    refused = run("approve", request.id[-4:])
    assert refused.exit_code != 0 and "needs an answer in words" in refused.stderr
    said = ok("approve", request.id[-4:], "--message", "2")
    assert "Answered alice:" in said and "alice will see: Blue" in said
    assert (stored(home, request).answer or {})["feedback"] == "Blue"
    assert "question: Which colour?" in ok("requests", "--all")
