"""Lines that are allowed without any rule, in the real bash: they only read in the project.

All of them: `BULLPEN_READING_LINES=65000 pytest` with this file; others: `BULLPEN_READING_SEED=7`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from bullpen.agents.contracts.call import Call, CommandEnvironment, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.reading.reading_table import BUILTINS, READING
from support.hostile.bash_runs import Bench
from support.hostile.generated_lines import HostileLines
from support.hostile.reading_lines import ReadingLines

LINES = int(os.environ.get("BULLPEN_READING_LINES", "1500"))
SEED = int(os.environ.get("BULLPEN_READING_SEED", "15"))
READERS = sorted({name.split()[0].rstrip("+") for name in READING} - BUILTINS)
OTHERS = ("awk", "env", "evil", "git-evil", "make", "npm", "pytest", "python", "rm", "sh", "tee",
          "touch", "xargs")  # fmt: skip
# Said without any of our code: words that no program of the set is to be given.
_TELLING = ("--output", "--ext", "--exec", "--pre", "--compress", "--textconv", "--files0",
            "--open-files", "--contents", "--no-index", "--submodule", "--git-dir",
            "--show-sig")  # fmt: skip
_ACTIONS = ("-delete", "-exec", "-fls", "-fprint", "-ok")
_OF_GIT = frozenset(
    """
    blame branch cat-file check-ignore count-objects describe diff diff-files diff-index diff-tree
    for-each-ref grep log ls-files ls-tree merge-base name-rev reflog remote rev-list rev-parse
    shortlog show show-ref stash status tag version whatchanged worktree
    """.split()  # noqa: SIM905 - one name a line would fill the page
)


class Stage:
    """A project with traps, a secret outside, and a bash whose programs only record."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self.bench.add((*READERS, *OTHERS), then="exit 0")
        self.project, self.outside = root / "project", root / "outside"
        self.bench.cwd = self.project
        for folder in (self.outside, self.project / "sub"):
            folder.mkdir(parents=True)
        (self.outside / "secret").write_text("x\n", "utf-8")
        for name in ("file.txt", "sub/inner", "list", "--output=w", "-p"):
            (self.project / name).write_text("x\n", "utf-8")
        (self.project / "link").symlink_to(self.outside)
        (self.project / "dangling").symlink_to(self.outside / "c1")
        for name in ("evil", "git", "ls"):
            (self.project / name).write_text(f"#!/bin/sh\n: > {self.outside}/c0\n", "utf-8")
            (self.project / name).chmod(0o755)
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True)
        environment = CommandEnvironment(str(root / "programs"), frozenset(["PATH", "HOME"]))
        home = str(root / "home")
        self._rights = Rights("dontAsk", str(self.project), home, commands=environment)

    def allows(self, line: str) -> bool:
        return decide(Call("Bash", {"command": line}, "run"), self._rights).effect == "allow"

    def harm(self, line: str) -> str | None:
        """Run a line, and say what it did but read in the project."""
        run = self.bench.run(line)
        if os.listdir(self.outside) != ["secret"]:
            return f"wrote outside: {os.listdir(self.outside)}"
        if run.files:
            return f"wrote {sorted(run.files)}"
        return next((f"ran {words}" for words in run.programs if self._harms(words)), None)

    def _harms(self, words: tuple[str, ...]) -> bool:
        name, *given = words
        if name not in READERS or any(word.startswith(_TELLING) for word in given):
            return True
        if name == "find" and any(word.startswith(_ACTIONS) for word in given):
            return True
        if name == "git":
            verbs = [word for word in given if not word.startswith("-")][:1]
            return bool(verbs) and verbs[0] not in _OF_GIT
        if name in {"basename", "dirname", "tr", "which"}:
            # They open no file.
            return False
        return any(self._leads_out(word) for word in _opened(name, given))

    def _leads_out(self, word: str) -> bool:
        """Whether a word is the path of something that exists outside, from where it may run."""
        for base in (self.project, self.project / "sub"):
            path = os.path.realpath(base / word)
            inside = path == str(self.project) or path.startswith(f"{self.project}/")
            if not inside and path != "/dev/null" and os.path.exists(path):
                return True
        return False


_VALUES = {
    "grep": ("-A", "-B", "-C", "-m"),
    "rg": ("-A", "-B", "-C", "-d", "-g", "-m", "-r", "-t", "-T"),
    "tree": ("-I", "-L", "-P"),
}
"""Options whose next word is their value, not a file."""


def _opened(name: str, given: list[str]) -> list[str]:
    """The words of a program that it opens: not the values of options, nor what it searches for."""
    of_grep = name in {"egrep", "fgrep", "grep", "rg"}
    takes_value = _VALUES.get("grep" if of_grep and name != "rg" else name, ())
    said = any(
        word.startswith(("--regexp", "--files", "--type-list"))
        or (word.startswith("-") and not word.startswith("--") and "e" in word)
        for word in given
    )
    found, at, pattern = [], 0, of_grep and not said
    while at < len(given):
        word = given[at]
        at += 2 if word in takes_value else 1
        if pattern and (not word.startswith("-") or word == "-"):
            pattern = False
        else:
            found.append(word)
    return found


def test_no_line_that_is_allowed_without_a_rule_does_more_than_read(tmp_path: Path) -> None:
    """R-4.1: of hostile lines, those that pass are run for real."""
    stage = Stage(tmp_path)
    dice = random.Random(SEED)
    makers: list[ReadingLines | HostileLines] = [
        ReadingLines(dice, str(stage.outside)),
        HostileLines(dice, str(stage.outside)),
    ]
    allowed, escapes = 0, []
    for number in range(LINES):
        line = makers[number % 2].next()
        if not stage.allows(line):
            continue
        allowed += 1
        harm = stage.harm(line)
        if harm is not None:
            escapes.append((number, harm, line))
    print(json.dumps({"seed": SEED, "lines": LINES, "allowed": allowed, "escapes": escapes}))
    assert escapes == []
    # Else the test would be about nothing.
    assert allowed > LINES // 50


@pytest.mark.parametrize(
    "line",
    [
        "cat link/secret",
        "./evil",
        "ls > w",
        "touch w",
        "git log --output=w",
        "cat ../outside/secret",
    ],
)
def test_the_stage_sees_harm(line: str, tmp_path: Path) -> None:
    """The comparison itself bites, and none of these lines is allowed."""
    stage = Stage(tmp_path)
    assert stage.harm(line) is not None
    assert not stage.allows(line)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("[core]\n\tfsmonitor = ./evil\n", "git status"),
        ("[diff]\n\texternal = ./evil\n", "git diff"),
        ('[filter "x"]\n\tclean = ./evil\n', "git status"),
        ("[gpg]\n\tprogram = ./evil\n[log]\n\tshowSignature = true\n", "git log"),
    ],
)
def test_what_git_asks_about_is_what_the_real_git_runs(
    settings: str, line: str, tmp_path: Path
) -> None:
    """R-4.1: an agent's program would run, so the line is not in the set."""
    stage = Stage(tmp_path)
    assert stage.allows(line)
    with (stage.project / ".git" / "config").open("a") as file:
        file.write(settings)
    assert not stage.allows(line)
