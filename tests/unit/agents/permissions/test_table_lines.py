"""Lines from attacks on the gate, and usual lines, each with what becomes of it.

The data file has the lines: options behind an allow rule with their verdict; paths and commands
against a deny rule, with the reason where a rule cannot see what they do. The reasons are those of
docs/reference/policy.md.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.protocol.policy import Mode
from support.hostile import generated_lines
from support.steps import steps

LINES: dict[str, Any] = json.loads(
    Path(generated_lines.__file__).with_name("table_lines.json").read_text("utf-8")
)
DENY = ("Read(.env)", "Read(secrets/**)")
# What policy.md says that rules cannot see.
UNSEEN_PATHS = {"hard link", "history", "search"}
UNSEEN_COMMANDS = {"script", "build file", "other name", "another program"}

PROGRAMS = """
git,ls,cat,head,tail,wc,grep,rg,find,sed,awk,sort,uniq,cut,tr,jq,diff,tree,du,pwd,which,echo,date,
mkdir,touch,rm,cp,mv,chmod,pytest,uv run pytest,uv run ruff,uv run mypy,uv sync,ruff,mypy,black,
isort,flake8,pylint,pip,tox,nox,make,npm,pnpm,yarn,tsc,cargo,go,gofmt,gcc,cmake,mvn,gradle,./gradlew,
dotnet,rake,composer,docker,curl,./run.sh,mytool,shellcheck,node,python,python3 -m mypy,
python -m pytest,timeout 60 make,timeout 120 pytest,npx tsc,npx eslint,npx prettier,npx jest,
npx vitest,bundle exec rspec
"""
USUAL_RULES = tuple(f"Bash({name.strip()}:*)" for name in PROGRAMS.split(","))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "p"
    for folder in ("src", "tests", "build", "secrets", "../home"):
        (made / folder).mkdir(parents=True)
    for name in (".env", "secrets/key"):
        (made / name).write_text("SECRETVALUE\n", "utf-8")
    for name in ("a.txt", "src/a.py", "src/a.c", "run.sh", "requirements.txt"):
        (made / name).write_text("x\n", "utf-8")
    (made / "ln").symlink_to("secrets")
    (made / "soft").symlink_to(".env")
    os.link(made / ".env", made / "hard")
    return made


def aimed(line: str, project: Path) -> str:
    return line.replace("{project}", str(project)).replace("{home}", str(project.parent / "home"))


def effect(line: str, project: Path, mode: Mode, **lists: Any) -> str:
    rights = Rights(mode, str(project), str(project.parent / "home"), **lists)
    return decide(Call("Bash", {"command": line}, "run"), rights).effect


def test_a_rule_covers_only_words_that_are_known_to_be_harmless(tmp_path: Path) -> None:
    """R-4.1: of these 217 lines, those that run other code or write elsewhere are asked about."""
    rows = LINES["options"]
    assert len(rows) == 217
    wrong = [
        (rule, line, expected)
        for rule, line, expected in rows
        if effect(line, tmp_path, "default", allow=(rule,)) != expected
    ]
    assert wrong == []
    assert Counter(expected for _, _, expected in rows) == {"ask": 204, "allow": 13}


@pytest.mark.parametrize("mode", ["dontAsk", "default", "bypassPermissions"])
def test_a_denied_path_is_seen_however_it_is_written(project: Path, mode: Mode) -> None:
    """R-4.1: of these 129 lines only what the page names passes."""
    rows = [(aimed(line, project), unseen) for line, unseen in LINES["paths"]]
    assert len(rows) == 129
    allow = tuple(LINES["paths_allow"])
    passed = {
        line for line, _ in rows if effect(line, project, mode, allow=allow, deny=DENY) == "allow"
    }
    # This one opens what its input names, and it has none.
    passed -= {"sort --files0-from=- "}
    assert passed == {line for line, unseen in rows if unseen is not None}
    assert {unseen for _, unseen in rows if unseen} == {*UNSEEN_PATHS, "names only"}


def test_a_denied_command_is_seen_wherever_it_stands(tmp_path: Path) -> None:
    """R-4.1: of these 141 lines only what the page names passes, even where all else is allowed."""
    rows = LINES["commands"]
    assert len(rows) == 141
    passed = {
        line
        for line, _ in rows
        if effect(line, tmp_path, "bypassPermissions", deny=("Bash(git push:*)",)) == "allow"
    }
    assert passed == {line for line, unseen in rows if unseen is not None}
    assert {unseen for _, unseen in rows if unseen} <= UNSEEN_COMMANDS


@pytest.mark.parametrize("deny", [(), DENY])
def test_usual_lines_are_not_asked_about(project: Path, deny: tuple[str, ...]) -> None:
    """R-4.1: with rules for the programs, and with files that are denied."""
    rules = (*USUAL_RULES, *(["Bash"] if deny else []))
    usual = [
        line for line in LINES["usual"] if deny or not line.startswith(("for", "if", "source"))
    ]
    asked = [
        line
        for line in usual
        if effect(line, project, "acceptEdits", allow=rules, deny=deny) != "allow"
    ]
    assert asked == []


PIECES = (
    "a ", "'a' ", '"a" ', "\\ ", "\\\n", ";", "a;", "a|", "(", ")", "{", "{a,b}", "[a", '"', "'",
    " ",
    "`", "$(", "$(a) ", "${x:-", "$x ", "<(", "> a ", "<<E ", "\n", "a\n", "*/", "../", "a/", "~/",
    "=", "a=b ", "--a=b ", "-a ", "\u2003", ":", "x=1 ", "for x in ", "sh -c ", "sh -c 'a b' ",
    "env ", "xargs ", "find . -exec ", "git -c a=b ", "git push ", "{} ", "{a..z}", "$((1+",
    "/proc/self/cwd/ ", "a/*/b ", "s/a/b/;",
)  # fmt: skip
MANY = (
    *(f"Bash(tool{number} push:*)" for number in range(20)),
    *("Bash(git push:*)", "Bash(* --force *)", "Read(.env)", "Read(**/*secret*key*)"),
    *(f"Read(/d{number}/**/x*y*)" for number in range(26)),
)


def filled_lines(size: int) -> Iterator[str]:
    """Lines that are filled with one piece of the language of the shell."""
    for start in ("git log ", "sh -c '"):
        for piece in PIECES:
            yield start + piece * (size // len(piece))


@pytest.mark.parametrize("size", [2_000, 1_000_000])
def test_no_line_takes_many_steps_to_decide(project: Path, size: int) -> None:
    """R-4.1: whatever fills it, a line is decided soon, with 50 rules."""
    for line in filled_lines(size):
        steps(partial(effect, line, project, "default", deny=MANY), at_most=2_000_000)
