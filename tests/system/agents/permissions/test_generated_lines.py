"""Generated hostile command lines against the real bash, in bubblewrap.

All of them: `BULLPEN_HOSTILE_LINES=100000 pytest` with this file; others: `BULLPEN_HOSTILE_SEED=7`.
Lines that the rules allow are run. Some programs only record their words, others are the real ones.
Nothing may be written outside, nothing new in the project, and no other program may run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from support.hostile.generated_lines import PIECES, HostileLines
from support.steps import steps

LINES = int(os.environ.get("BULLPEN_HOSTILE_LINES", "1200"))
SEED = int(os.environ.get("BULLPEN_HOSTILE_SEED", "15"))

RECORDERS = (
    "a cat cp env.evil evil f git head ls nice npm pytest python rm sh.evil tee.evil touch uv x y"
)
REAL = "awk bash diff env find grep make rg sed sh sort tar tee timeout xargs"
ALLOW = (
    *(f"Bash({program}:*)" for program in PIECES["programs"]),
    *(f"Bash({each}:*)" for each in ("ls", "echo", "cat", "printf", "test", "[", "true", "head")),
)
# Said without any of our code: what pytest is not to be given.
_TELLING = ("--junitxml=/", "--basetemp", "--rootdir", "--log-file", "--override", "--tx", "-p",
            "-c", "-o", "@", "--debug", "--pdbcls", "--cov-report=html:/")  # fmt: skip

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


class Stage:
    """A project, a folder outside, and a bash that finds only the programs of the test."""

    def __init__(self, root: Path) -> None:
        self.project, self.outside = root / "project", root / "outside"
        self._programs, self._log, self._root = root / "programs", root / "log", root
        for folder in (self.outside, self._programs, self._log):
            folder.mkdir(parents=True)
        record = f'printf \'%s\\0\' "${{0##*/}}" "$@" > {self._log}/$$\n'
        for name in RECORDERS.split():
            self._program(self._programs / name, record)
        for name in REAL.split():
            found = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
            if found:
                (self._programs / name).symlink_to(found)
        self._record = record
        self.reset()

    @staticmethod
    def _program(path: Path, body: str) -> None:
        path.write_text("#!/bin/sh\n" + body, "utf-8")
        path.chmod(0o755)

    def reset(self) -> None:
        """Lay the project out anew, and empty the folder outside."""
        shutil.rmtree(self.project, ignore_errors=True)
        shutil.rmtree(self.outside)
        self.outside.mkdir()
        (self.project / "sub").mkdir(parents=True)
        files = {
            "file.txt": "x\n", "-p": "", "--output=w": "", "list": "--evil\nevil\n",
            "args": f"--junitxml={self.outside}/c\n", "Makefile": "all test:\n\t@true\n",
            "evil.mk": f"all:\n\t@: > {self.outside}/c\n",
            "evil.awk": 'BEGIN{system("./evil")}\n',
        }  # fmt: skip
        for name, text in files.items():
            (self.project / name).write_text(text, "utf-8")
        for name in ("evil", "git", "ls"):
            self._program(self.project / name, self._record.replace('"${0##*/}"', "LOCAL"))
        subprocess.run(["tar", "cf", "x.tar", "file.txt"], cwd=self.project, check=True)

    def effect(self, line: str) -> str:
        rights = Rights("dontAsk", str(self.project), str(self._root / "home"), ALLOW)
        return decide(Call("Bash", {"command": line}, "run"), rights).effect

    def harm(self, line: str, locale: str) -> str | None:
        """Run a line, and say what it did that the rules are not about."""
        for record in self._log.iterdir():
            record.unlink()
        before = set(os.listdir(self.project)) | {"sub"}
        words = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
        words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/home"]
        for each in (self.project, self._log, self.outside):
            words += ["--bind", str(each), str(each)]
        words += ["--chdir", str(self.project), "/bin/bash", "-c", line]
        env = {"PATH": str(self._programs), "HOME": str(self._root / "home"), "LC_ALL": locale}
        bwrap = shutil.which("bwrap") or "bwrap"
        # A line may wait for ever, as `cat >(true)` does. What it did until then counts.
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([bwrap, *words[1:]], env=env, timeout=20, check=False,
                           stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip
        if os.listdir(self.outside):
            return f"wrote outside: {os.listdir(self.outside)}"
        new = set(os.listdir(self.project)) - before - {"ok.xml"}
        if new or os.listdir(self.project / "sub"):
            return f"wrote {sorted(new)}"
        ran = [record.read_bytes().split(b"\0")[:-1] for record in self._log.iterdir()]
        for given in ([os.fsdecode(word) for word in record] for record in ran):
            if given and not _listed(given):
                return f"ran {given}"
        return None


def _listed(words: list[str]) -> bool:
    """Whether the rules are about a program with these words."""
    options = words[: words.index("--")] if "--" in words else words
    telling = any(word.startswith(("--out", "--ext", "--exec", "-O")) for word in options[1:])
    if words[0] in {"ls", "cat", "head"}:
        return True
    if words[0] == "nice":
        return words[1:3] == ["git", "status"] and "-c" not in words
    if words[0] == "git":
        return words[1:2] in (["status"], ["log"]) and not telling
    if words[0] == "npm":
        return words[1:2] == ["test"] and not any(
            each in word
            for word in words
            if word.startswith("-")
            for each in ("script-shell", "prefi", "config", "node-opt")
        )
    pytest_words = words[0] == "pytest" or words[:3] == ["python", "-m", "pytest"]
    return pytest_words and not any(
        word.startswith(_TELLING) for word in words[3 if words[0] == "python" else 1 :]
    )


def test_no_generated_line_does_what_its_rule_is_not_about(tmp_path: Path) -> None:
    """R-4.1: lines around every program of the list; those that pass are run for real."""
    stage = Stage(tmp_path)
    dice = random.Random(SEED)
    lines = HostileLines(dice, str(stage.outside))
    allowed, escapes = 0, []
    for number in range(LINES):
        line = lines.next()
        if stage.effect(line) != "allow":
            continue
        allowed += 1
        harm = stage.harm(line, dice.choice(["C.UTF-8", "C", "POSIX"]))
        if harm is not None:
            escapes.append((number, harm, line))
            stage.reset()
    print(json.dumps({"seed": SEED, "lines": LINES, "allowed": allowed, "escapes": len(escapes)}))
    assert escapes == []
    # Else the test would be about nothing.
    assert allowed > LINES // 50


@pytest.mark.parametrize(
    "line", ["sort -o C file.txt", "timeout 60 make -f evil.mk", "awk -f evil.awk", "./evil", "> w"]
)
def test_the_stage_sees_harm(line: str, tmp_path: Path) -> None:
    """The comparison itself bites, and the rules refuse these lines."""
    stage = Stage(tmp_path)
    line = line.replace("C", f"{stage.outside}/c")
    assert stage.harm(line, "C.UTF-8") is not None
    assert stage.effect(line) == "deny"


def test_generated_lines_are_decided_in_few_steps(tmp_path: Path) -> None:
    """R-4.1: no line keeps the agent waiting."""
    stage = Stage(tmp_path)
    lines = HostileLines(random.Random(SEED + 1), str(stage.outside))
    for _ in range(300):
        steps(partial(stage.effect, lines.next()), at_most=500_000)
