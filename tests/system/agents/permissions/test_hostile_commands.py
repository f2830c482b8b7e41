"""The hostile command lines against the real bash.

All of them: `BULLPEN_HOSTILE_RUNS=4000 pytest` with this file.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.hostile.bash_runs import Bench
from support.hostile.commands import COMMANDS
from support.hostile.lines_of_bash import TOKENS
from support.hostile.scenes import LISTED, RUNS, UNLISTED, Scene, _scene

DAMAGED = 15 * RUNS


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
