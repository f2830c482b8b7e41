"""What an "always" would allow, and the policy file that answers in the place of a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.policy_file import answer_of
from bullpen.protocol.policy import Mode
from bullpen.team.requests.mode_rules import Kind


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return tmp_path / "project"


def rights(project: Path, mode: Mode = "default", **lists: Any) -> Rights:
    return Rights(mode, str(project), str(project.parent / "home"), **lists)


def contents(command: str, given: Rights) -> list[str]:
    found = decide(Call("Bash", {"command": command}, "run"), given).suggestions
    return [rule["ruleContent"] for row in found for rule in row["rules"]]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git commit -m 'x y'", ["git commit:*"]),
        ("ls -la", ["ls:*"]),
        ("make", ["make"]),
        ("npm test", ["npm test:*"]),
        ("npm run build -- --coverage", ["npm run build:*"]),
        ("git --no-pager log", ["git --no-pager log"]),
        ("git -c a=b log", ["git -c a=b log"]),
        ("cat a.txt | grep x", ["cat:*", "grep x:*"]),
        ("ls && ls -l", ["ls:*"]),
        ("cd src && ls", ["ls:*"]),
        ("./run.sh --fast", ["./run.sh:*"]),
    ],
)
def test_always_names_the_program_and_its_subcommand(
    command: str, expected: list[str], project: Path
) -> None:
    assert contents(command, rights(project)) == expected


@pytest.mark.parametrize(
    "command",
    [
        "python x.py",
        "python3.12 -m pytest",
        "bash -c x",
        "sudo ls",
        "env ls",
        "xargs ls",
        "rm x",
        "node x",
        "uv run python x",
        "for i in 1; do ls; done",
        "ls; eval x",
        "$X ls",
        "X=1 ls",
        "ls | sh",
        "ls > /tmp/x",
        "cd .. && ls",
        "find . -delete",
        "npm run build -- --config=x",
        "git status; npm test; a b; c d; e f; g h",
    ],
)
def test_a_rule_for_the_program_is_not_offered_where_it_would_allow_too_much(
    command: str, project: Path
) -> None:
    """Nor where it would not help: then a plain "always" is for exactly this line."""
    found = decide(Call("Bash", {"command": command}, "run"), rights(project)).choices
    assert "program" not in [each.name for each in found]
    assert [each.name for each in found if each.plain] == ["line"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 -m pytest -q", ["=python3 -m pytest -q", "python3 -m pytest -q"]),
        ("npm test", ["=npm test", "npm test", "npm test:*"]),
        ("make", ["=make", "make"]),
        ("rm *.pyc", ["=rm *.pyc"]),
        ("X=1 make", ["=X=1 make"]),
        ("for i in 1 2; do make $i; done", ["for i in 1 2; do make $i; done"]),
        ("make lint && make test > log", ["make lint && make test > log"]),
        ("eval x", ["=eval x"]),
        ("echo a:*", ["=echo a:*", "echo:*"]),
    ],
)
def test_always_offers_exactly_this_line_first(
    command: str, expected: list[str], project: Path
) -> None:
    """From narrow to wide; each of them is enough for this call."""
    call, given = Call("Bash", {"command": command}, "run"), rights(project)
    found = decide(call, given).choices
    contents = [row["rules"][0]["ruleContent"] for each in found for row in each.suggestions]
    assert contents == expected
    for content in contents:
        allowed = rights(project, allow=(f"Bash({content})",))
        assert decide(call, allowed).effect == "allow"


def test_the_second_choice_says_how_it_is_wider_than_the_first(project: Path) -> None:
    found = decide(Call("Bash", {"command": "make"}, "run"), rights(project)).choices
    line, arguments = (each.covers for each in found)
    assert line == "exactly this command line"
    assert arguments == "`make`, also inside a longer command (a && b)"


@pytest.mark.parametrize(
    "other",
    ["python3 -m pytest -q x", "python3 -m pytest", "cd src && python3 -m pytest -q",
     "python3 -m pytest -q; ls", "python3 -m pytest -q > x", "X=1 python3 -m pytest -q"],
)  # fmt: skip
def test_a_line_that_was_allowed_exactly_covers_no_other(other: str, project: Path) -> None:
    """Blanks around it do not count."""
    given = rights(project, allow=("Bash(=python3 -m pytest -q)",))
    ask = Call("Bash", {"command": other}, "run")
    assert decide(ask, given).effect == "ask"
    same = Call("Bash", {"command": " python3 -m pytest -q\n"}, "run")
    assert decide(same, given).effect == "allow"


@pytest.mark.parametrize("command", ["make \x1b[2J", "make \u202e x", "make " + "x" * 3000])
def test_a_line_that_a_person_cannot_read_is_not_offered(command: str, project: Path) -> None:
    found = decide(Call("Bash", {"command": command}, "run"), rights(project)).choices
    assert "line" not in [each.name for each in found]


def test_always_adds_only_what_is_not_allowed_yet(project: Path) -> None:
    given = rights(project, allow=("Bash(git status:*)",))
    assert contents("git status && npm test", given) == ["npm test:*"]


def test_no_always_can_beat_a_rule_that_asks(project: Path) -> None:
    ruling = decide(
        Call("Bash", {"command": "git push"}, "run"), rights(project, ask=("Bash(git push:*)",))
    )
    assert ruling.effect == "ask"
    assert ruling.suggestions == ()


def test_the_form_is_that_of_claude_code(project: Path) -> None:
    ruling = decide(Call("Bash", {"command": "git commit"}, "run"), rights(project))
    assert ruling.suggestions == (
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "git commit:*"}],
            "behavior": "allow",
            "destination": "session",
        },
    )


def files(tool: str, path: str, given: Rights) -> list[Any]:
    kind: Kind = "read" if tool in ("Read", "Grep") else "write"
    key = "path" if tool == "Grep" else "file_path"
    found = decide(Call(tool, {key: path, "pattern": "x"}, kind), given).suggestions
    return [
        row["directories"] if row["type"] == "addDirectories" else row["rules"][0] for row in found
    ]


def test_always_for_files_names_their_directory(project: Path) -> None:
    outside = str(project.parent / "outside")
    edits = {"toolName": "Edit", "ruleContent": "/src/**"}
    assert files("Write", "src/a.py", rights(project)) == [edits]
    assert files("Write", "src/new/a.py", rights(project))[0]["ruleContent"] == "/src/new/**"
    assert files("Write", f"{outside}/a", rights(project, "acceptEdits")) == [[outside]]
    assert files("Write", f"{outside}/a", rights(project)) == [
        [outside],
        {"toolName": "Edit", "ruleContent": f"/{outside}/**"},
    ]


def test_always_is_the_same_for_a_file_that_was_looked_up(project: Path) -> None:
    """As the gate does it, so that the file that was decided about is the one that is opened."""
    path = str(project / "src/a.py")
    ruling = decide(Call("Write", {"file_path": "src/a.py"}, "write", real=path), rights(project))
    assert ruling.suggestions[0]["rules"] == [{"toolName": "Edit", "ruleContent": "/src/**"}]
    moved = Call("Write", {"file_path": "src/a.py"}, "write", real="/etc/a.py")
    assert decide(moved, rights(project, "acceptEdits")).effect == "ask"
    assert decide(moved, rights(project, "acceptEdits")).suggestions == ()


def test_always_for_reading_allows_no_writing(project: Path) -> None:
    outside = str(project.parent / "outside")
    wanted = {"toolName": "Read", "ruleContent": f"/{outside}/**"}
    for tool, path in (("Read", f"{outside}/a"), ("Grep", outside)):
        assert files(tool, path, rights(project, "acceptEdits")) == [wanted]


@pytest.mark.parametrize(
    "path",
    ["/x", "../x", "~/x", ".git/config", ".bashrc", "/proc/self/cwd/x", "src/a*/b", "src/a b/c"],
)
def test_always_is_not_offered_for_places_that_hold_too_much(
    path: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole home, what the project lies in, what programs run, names that are no plain text."""
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    assert files("Write", path, rights(project)) == []


def test_always_for_a_file_of_the_top_directory_is_about_that_file(project: Path) -> None:
    """For its directory would be for the whole project."""
    assert files("Write", "a.py", rights(project))[0]["ruleContent"] == "/a.py"


def test_what_always_offers_is_enough_for_this_call_and_not_for_others(project: Path) -> None:
    call = Call("Bash", {"command": "git commit -m x"}, "run")
    rule = f"Bash({contents('git commit -m x', rights(project))[0]})"
    assert decide(call, rights(project, allow=(rule,))).effect == "allow"
    for other in ("git push", "git commit; ls", "git commit > /tmp/x", "git -c a=b commit"):
        call = Call("Bash", {"command": other}, "run")
        assert decide(call, rights(project, allow=(rule,))).effect == "ask", other


def answer(command: str, project: Path, text: str | None, **lists: Any) -> tuple[str, str]:
    file = project / "answers.toml"
    if text is not None:
        file.write_text(text)
    call = Call("Bash", {"command": command}, "run")
    ruling = answer_of(call, rights(project, **lists), None if text is None else str(file))
    return ruling.effect, ruling.why


def test_the_policy_file_allows_what_it_names_and_nothing_else(project: Path) -> None:
    """R-4.1: nobody is there to ask, so a file answers, and its silence is a no."""
    text = '[answers]\nallow = ["Bash(npm test)"]\ndeny = ["Bash(rm:*)"]\n'
    assert answer("npm test", project, text)[0] == "allow"
    assert answer("npm test; ls", project, text)[0] == "deny"
    assert "nobody is there" in answer("ls", project, text)[1]
    assert "Bash(rm:*) denies it" in answer("rm x", project, text)[1]
    assert answer("npm test", project, None)[0] == "deny"


def test_the_policy_file_does_not_allow_what_the_mode_would(project: Path) -> None:
    """What a rule asks about is not answered by a mode, nor by the asker's own rules."""
    file = project / "answers.toml"
    file.write_text('[answers]\nallow = ["Bash(npm test)"]\n')
    given = rights(project, ask=("Read(/src/**)", "SendMessage"), allow=("Read", "SendMessage"))
    for call in (Call("Read", {"file_path": "src/a"}, "read"), Call("SendMessage", {}, "team")):
        assert decide(call, given).effect == "ask"
        assert answer_of(call, given, str(file)).effect == "deny"


@pytest.mark.parametrize("text", ["[answers", "answers = 3", '[answers]\nallow = "Bash"', "\xff"])
def test_a_policy_file_that_cannot_be_read_allows_nothing(text: str, project: Path) -> None:
    effect, why = answer("npm test", project, text)
    assert effect == "deny"
    assert "cannot be read" in why
    assert (
        answer_of(
            Call("Bash", {"command": "x"}, "run"), rights(project), str(project / "gone.toml")
        ).effect
        == "deny"
    )


def test_the_policy_file_is_bound_by_what_is_denied(project: Path) -> None:
    text = '[answers]\nallow = ["Bash"]\n'
    assert answer("rm x", project, text, deny=("Bash(rm:*)",))[0] == "deny"
    assert answer("ls", project, text, deny=("Bash(rm:*)",))[0] == "allow"
    assert answer("eval x", project, text, deny=("Bash(rm:*)",))[0] == "deny"
