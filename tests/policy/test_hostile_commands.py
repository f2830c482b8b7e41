"""The hostile command lines against an allow list, and against the real bash.

BULLPEN_HOSTILE_RUNS=4000 pytest tests/policy/test_hostile_commands.py     # run all of them
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from bash_runs import Bench
from hostile import ALLOWED, COMMANDS, aimed, lay_out
from lines_of_bash import TOKENS

from bullpen.agents.policy.call import Call, Rights
from bullpen.agents.policy.decide import decide
from bullpen.protocol.policy import Mode

RUNS = int(os.environ.get("BULLPEN_HOSTILE_RUNS", "150"))
DAMAGED = 15 * RUNS

LISTED = ("git", "ls", "npm", "python")
UNLISTED = (
    "awk", "base64", "bash", "busybox", "cat", "chmod", "cp", "dd", "diff", "env", "find", "grep",
    "head", "install", "ln", "mkdir", "mv", "nohup", "od", "perl", "python3", "sed", "sh",
    "sort", "tac", "tar", "tee", "timeout", "touch", "xargs",
)  # fmt: skip
# What git and pytest are not to be given, whatever they were found to be called with.
_TELLING = (
    "--out", "--outp", "--outpu", "--output", "--ext", "--ext-diff", "--exec", "--exec-path",
    "--junitxml", "--junit-xml", "--basetemp", "--log-file", "--rootdir",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scene:
    """A project, what lies outside it, and a bash that finds only programs that record."""

    bench: Bench
    project: Path
    canary: Path
    secret: Path

    def aimed(self, command: str) -> str:
        return aimed(command, canary=self.canary, secret=self.secret)

    def effect(self, command: str, mode: Mode = "dontAsk") -> str:
        rights = Rights(mode, str(self.project), str(self.project.parent / "home"), ALLOWED)
        return decide(Call("Bash", {"command": command}, "run"), rights).effect

    def harm(self, command: str) -> str | None:
        """Run a command line, and say what it did that is not on the list."""
        run = self.bench.run(command)
        if self.canary.exists() or self.canary.is_symlink():
            return "the canary"
        if run.files:
            return f"wrote {sorted(run.files)}"
        for words in run.programs:
            if not _listed(words):
                return f"ran {words}"
        return None


def _listed(words: tuple[str, ...]) -> bool:
    """Whether the list is about a program with these words, said without any of our code."""
    telling = any(word.partition("=")[0] in _TELLING for word in words[1:])
    return (
        words[:1] in {("ls",), ("echo",)}
        or words == ("npm", "test")
        or (words[:2] in {("git", "status"), ("git", "log")} and not telling)
        or (words[:3] == ("python", "-m", "pytest") and not telling)
    )


def _scene(root: Path, bench: Bench) -> Scene:
    project, outside = root / "project", root / "outside"
    outside.mkdir(parents=True)
    (outside / "secret").write_text("the secret\n", "utf-8")
    lay_out(project, outside / "canary")
    bench.cwd = project
    return Scene(bench, project, outside / "canary", outside / "secret")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Programs that record, those of the list and others."""
    made = Bench(tmp_path)
    made.add((*LISTED, *UNLISTED), then="exit 0")
    return made


@pytest.fixture
def scene(tmp_path: Path, bench: Bench) -> Scene:
    """A project with traps in it, and a canary and a secret beside it."""
    return _scene(tmp_path, bench)


def test_there_are_enough_hostile_commands_and_none_twice() -> None:
    """R-4.1: the size of the corpus."""
    assert len(COMMANDS) >= 1_400
    assert len(set(COMMANDS)) == len(COMMANDS)


def test_no_hostile_command_passes_an_allow_list(scene: Scene) -> None:
    """R-4.1: none of them is allowed by the rules, and so in dontAsk all are denied."""
    escapes = [each for each in COMMANDS if scene.effect(scene.aimed(each)) != "deny"]
    assert escapes == []


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
def test_no_mode_that_asks_lets_a_hostile_command_pass_unasked(scene: Scene, mode: Mode) -> None:
    """R-4.1: a mode that allows changes in the project adds nothing to the list of commands."""
    commands = COMMANDS if len(COMMANDS) <= RUNS else COMMANDS[::6]
    assert {scene.effect(scene.aimed(each), mode) for each in commands} == {"ask"}


def test_no_damaged_hostile_command_gets_anything_done(scene: Scene) -> None:
    """R-4.1: what passes with a bit taken out or put in is really run, and harms nothing."""
    dice = random.Random(DAMAGED)
    passed = 0
    for _ in range(DAMAGED):
        command = scene.aimed(dice.choice(COMMANDS))[:600]
        for _ in range(dice.randint(1, 3)):
            at = dice.randint(0, len(command))
            command = command[:at] + dice.choice(("", *TOKENS)) + command[at + dice.randint(0, 9) :]
        if scene.effect(command) == "allow":
            passed += 1
            assert scene.harm(command) is None, command
    # Some do pass, or this would show nothing. How many depends on how long the paths are.
    assert passed > DAMAGED // 500


def test_the_hostile_commands_really_do_harm(tmp_path: Path, bench: Bench) -> None:
    """The corpus bites: run by bash without any rule, nearly all of it does what it should not.

    The others only read, are no correct bash, or need a program that is not there.
    """
    runnable = [each for each in COMMANDS if "\0" not in each and each.isascii()]
    sample = random.Random(RUNS).sample(runnable, min(RUNS, len(runnable)))
    harmless = []
    for number, each in enumerate(sample):
        scene = _scene(tmp_path / str(number), bench)
        if scene.harm(scene.aimed(each)) is None:
            harmless.append(each)
        shutil.rmtree(tmp_path / str(number))
    assert len(harmless) < len(sample) / 10, harmless


HONEST = [
    "git status",
    "git status --short --branch",
    "git log --oneline -5",
    "git log -p HEAD~3..HEAD -- file.txt",
    "git log --format='%h %s; %an' --since='2 days ago'",
    'git log --author="O\'Brien" | ls',
    "git status && git log -1",
    "git status; ls -la; echo done",
    "git status 2>&1",
    "git status 2>/dev/null",
    "ls *.txt src/**/*.py",
    "ls -la # what is here",
    'echo "in $PWD, it\'s $((1 + 2))"',
    "echo $(git status --porcelain)",
    'echo "branch: $(git log -1 --format=%D)"',
    "echo 'touch x; rm -rf y > z'",
    "echo a \\\n  b",
    "(git status; ls)",
    "{ git status; ls; } 2>&1",
    "ls <<'E'\n$(touch x)\nE",
    "npm test",
    "npm test 2>&1 | ls",
    "python -m pytest",
    "python -m pytest -q tests -k 'not slow' --maxfail=1",
    "cd tests && ls",
    "git status &",
]


@pytest.mark.parametrize("command", HONEST)
def test_what_the_list_is_about_passes(scene: Scene, command: str) -> None:
    """R-4.1: the list is not safe because it allows nothing."""
    assert scene.effect(command) == "allow"
    assert scene.harm(command) is None


@pytest.mark.parametrize(
    "command",
    ["cd sub && git status", "git -C sub status", "git log --output={canary}", "git log --out*"],
)
def test_the_traps_are_real(scene: Scene, command: str) -> None:
    """What is refused for git is what the real git does."""
    env = {"PATH": os.defpath, "HOME": str(scene.project.parent / "home")}
    for words in (["init", "-q"], ["add", "file.txt"], ["-c", "user.name=a", "-c", "user.email=b",
                  "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=scene.project, env=env, check=True)
    (scene.project / "written").unlink(missing_ok=True)
    subprocess.run(
        ["/bin/bash", "-c", scene.aimed(command)],
        cwd=scene.project,
        env=env,
        check=False,
        capture_output=True,
    )
    assert scene.canary.exists() or (scene.project / "written").exists()
    assert scene.effect(scene.aimed(command)) == "deny"
