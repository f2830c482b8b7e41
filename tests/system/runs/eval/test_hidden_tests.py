"""No attempt of an agent reads hidden tests, or changes the verdict other than by its change."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import anyio
import pytest

from bullpen.runs.eval import trial as trial_module
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.importers.from_commits import MakeRequest, make_suite
from bullpen.runs.eval.plan import Trial
from bullpen.runs.eval.results import Results
from bullpen.runs.eval.suite import read_suite
from bullpen.runs.eval.trial import Done, TrialSetup, run_trial
from support.evals.attempts import FILE_TOOLS, SHELL, TRICKS
from support.evals.suites import CANARY, CHECK, FINISH, RIGHT, WRONG, bash, put, script

pytestmark = pytest.mark.anyio


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


class Scene:
    """A repository whose last commit has the change, and a suite made of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.base = tmp_path
        self.source, self.suite, self.kept = (
            tmp_path / name for name in ("source", "suite", "results")
        )
        put(self.source, {"adder.py": WRONG, "README.md": "Adds.\n"})
        git(self.source, "init", "-q", "-b", "main")
        git(self.source, "add", ".")
        git(self.source, "commit", "-qm", "Begin")
        put(self.source, {"adder.py": RIGHT, "tests/test_add.py": CHECK})
        git(self.source, "add", ".")
        git(self.source, "commit", "-qm", "Add for real")
        self.later = git(self.source, "rev-parse", "HEAD")
        self.blob = git(self.source, "rev-parse", "HEAD:tests/test_add.py")
        test = "PYTHONPATH=. python3 {files}"
        made = make_suite(MakeRequest(self.source, self.suite, test))
        self.task = made.tasks[0]
        self.hidden = self.suite / "tasks" / self.task / "tests" / "tests" / "test_add.py"
        assert CANARY in self.hidden.read_text()
        self.results = Results(self.kept)
        self.results.begin({})

    def filled(self, text: str) -> str:
        for name in ("hidden", "suite", "source", "base", "later", "blob"):
            text = text.replace(f"<<{name}>>", str(getattr(self, name)))
        return text.replace("<<results>>", str(self.kept))

    async def run(self, steps: list[dict[str, object]], *, number: int = 1) -> tuple[Done, Path]:
        """Run one trial with a scripted agent. Its folder stays."""
        made = script(self.base, {"team-lead": [*steps, FINISH]})
        agents = ArmAgents(driver="scripted", script=made)
        setup = TrialSetup(read_suite(self.suite), agents, self.kept, os.environ)
        trial = Trial(self.task, "solo", number, None)
        folder = self.results.work / trial.folder
        return await run_trial(trial, setup, folder), folder


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(trial_module, "remove_folder", lambda *_: None)
    return Scene(tmp_path)


def holders(folder: Path, text: str) -> list[str]:
    """The files below a folder that contain a text."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if text.encode() in path.read_bytes()]


async def test_no_attempt_reads_hidden_tests(scene: Scene) -> None:
    assert len(SHELL) + len(FILE_TOOLS) >= 40
    steps: list[dict[str, object]] = [bash("mkdir said")]
    for number, command in enumerate(SHELL.values()):
        text = scene.filled(command)
        steps.append(bash(f"timeout 20 sh -c {shlex.quote(text)} > said/{number}.txt 2>&1; true"))
    steps.append(bash(scene.filled("ln -s <<hidden>> to-hidden; ln -s <<suite>> to-suite")))
    for tool, given in FILE_TOOLS.values():
        filled = {key: scene.filled(value) for key, value in given.items()}
        steps.append({"tool": tool, "input": filled, "may_fail": True})
    steps.append(bash("touch attempts-made"))
    done, folder = await scene.run(steps)
    clone = folder / "agents" / "project"
    assert (clone / "attempts-made").exists(), done.record
    assert len(list((clone / "said").iterdir())) == len(SHELL)
    # What the agent was told, what it wrote, and what it left; not where the verdict was found.
    await anyio.sleep(2.5)
    for place in (folder / "agents", *folder.glob("home*")):
        assert holders(place, CANARY) == []
        assert holders(place, "return a + b") == []
    assert CANARY not in done.patch
    assert CANARY in scene.hidden.read_text()
    assert done.record.verdict == "failed", done.record
    assert CANARY in (folder / "verdict" / "clone" / "tests" / "test_add.py").read_text()


async def test_an_attempt_that_works_would_be_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same search finds the tests if the sandbox is told to show them."""
    path = scene.suite / "suite.toml"
    path.write_text(path.read_text() + f'read = ["{scene.suite}"]\n')
    done, _ = await scene.run([bash(scene.filled("cat <<hidden>> > seen.txt"))])
    assert done.record.verdict == "error"
    assert "could read" in done.record.why
    monkeypatch.setattr(trial_module, "readable_inside", lambda *_: [])
    seen = [bash(scene.filled("cat <<hidden>> > seen.txt"))]
    done, folder = await scene.run(seen, number=2)
    assert holders(folder / "agents", CANARY) != []


async def test_the_clone_has_one_commit_and_only_its_files(scene: Scene) -> None:
    _, folder = await scene.run([bash("true")])
    clone = folder / "agents" / "project"
    listed = git(clone, "cat-file", "--batch-check", "--batch-all-objects").splitlines()
    kinds = sorted(line.split()[1] for line in listed)
    assert kinds == ["blob", "blob", "commit", "tree"]
    assert git(clone, "remote") == ""
    assert not any(scene.later[:12] in line for line in listed)


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_file_that_decides_how_tests_run_is_put_back(scene: Scene, trick: str) -> None:
    name = trick.split()[-1]
    done, _ = await scene.run([bash(f"echo '{TRICKS[trick]}' > {name}")])
    assert done.record.verdict == "failed"
    assert done.record.put_back == (name,)


@pytest.mark.parametrize(
    "command",
    [
        # Tests of its own in the place of the hidden ones.
        "mkdir tests; echo pass > tests/test_add.py",
        # The folder of the tests leads elsewhere, or is a file.
        "mkdir /tmp/x; ln -s /tmp/x tests",
        "echo > tests",
        # Git runs something when the change is taken.
        "printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/*",
        "git config filter.x.clean 'touch ran'; echo '* filter=x' > .gitattributes",
        "git config core.fsmonitor 'touch ran'",
        # A repository in the repository; no repository at all.
        "git init -q inner; rm -rf .git",
        # What is ignored is not part of the change.
        "mkdir env; echo 'import os; os._exit(0)' > env/x.py; echo env > .gitignore",
        "mkfifo pipe; touch -- '-rf'; printf x > \"$(printf 'a\\nb')\"",
    ],
)
async def test_what_is_left_beside_the_change_decides_nothing(scene: Scene, command: str) -> None:
    done, folder = await scene.run([bash(command)])
    assert done.record.verdict == "failed", done.record
    assert not (folder / "verdict" / "clone" / "ran").exists()


async def test_a_good_change_passes_beside_all_that(scene: Scene) -> None:
    done, _ = await scene.run(
        [bash("sed -i 's/a - b/a + b/' adder.py; mkdir tests; ln -s / tests/l")]
    )
    assert done.record.verdict == "passed", done.record
