"""What an agent can leave in its files, and what Bullpen's own code then does with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.protocol.policy import Sandbox
from bullpen.runs.eval import clones, verdict
from bullpen.runs.eval.arms import ArmAgents, team
from bullpen.runs.eval.clones import make_clone, remove_tree
from bullpen.runs.eval.suite import EvalTask, read_suite
from bullpen.runs.eval.trial import clear, remove_folder
from bullpen.runs.eval.verdict import Judgement, judge, readable_inside
from support.evals.suites import RIGHT, make_suite, put


def task_of(folder: Path, **more: object) -> EvalTask:
    make_suite(folder / "suite", **more)  # type: ignore[arg-type]
    return read_suite(folder / "suite").tasks[0]


def judged(task: EvalTask, worked: Path) -> Judgement:
    return judge(task, worked, worked.parent / "verdict", os.environ)


def test_a_folder_that_became_a_link_leads_no_removal_out_of_the_clone(tmp_path: Path) -> None:
    """The base has checks/conftest.py; the agent puts a link in place of its folder."""
    theirs = tmp_path / "theirs"
    put(theirs, {"conftest.py": "mine = True\n"})
    task = task_of(tmp_path, files={"lib/conftest.py": "x = 1\n"})
    worked = tmp_path / "worked"
    make_clone(task, worked)
    put(worked, {"adder.py": RIGHT})
    remove_tree(worked / "lib")
    (worked / "lib").symlink_to(theirs)
    found = judged(task, worked)
    assert (theirs / "conftest.py").read_text() == "mine = True\n"
    assert found.passed
    assert found.put_back == ("lib/conftest.py",)


def test_a_package_that_python_loads_at_its_start_is_put_back(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    worked = tmp_path / "worked"
    make_clone(task, worked)
    put(worked, {"sitecustomize/__init__.py": "import os; os._exit(0)\n"})
    found = judged(task, worked)
    assert not found.passed
    assert found.put_back == ("sitecustomize/__init__.py",)


@pytest.mark.parametrize("left", ["large", "many", "deep"])
def test_files_that_cannot_be_judged_are_a_failed_trial_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """An error counts for no arm and is run again: no agent may choose that."""
    monkeypatch.setattr(clones, "_FILES_MAX", 50)
    monkeypatch.setattr(clones, "BYTES_MAX", 1_000_000)
    task = task_of(tmp_path)
    worked = tmp_path / "worked"
    make_clone(task, worked)
    put(worked, {"adder.py": RIGHT})
    if left == "large":
        # It takes no room here, and would where it is copied to.
        os.truncate(worked / "README.md", 10**13)
    if left == "many":
        put(worked, {f"many/{number}": "" for number in range(60)})
    if left == "deep":
        deep = "import os\nfor n in range(3000): os.mkdir('deeper'); os.chdir('deeper')"
        subprocess.run([sys.executable, "-c", deep], cwd=worked, check=True, timeout=60)
    try:
        found = judged(task, worked)
    finally:
        remove_tree(tmp_path)
    assert not found.passed
    assert "cannot be judged" in found.why
    assert not tmp_path.exists()


def test_a_look_from_the_sandbox_that_takes_too_long_is_not_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "_LOOK_S", 0.0)
    (tmp_path / "home").mkdir()
    (tmp_path / "worked").mkdir()
    hidden = tmp_path / "hidden"
    seen = readable_inside(
        [hidden], tmp_path / "worked", Sandbox.new(), os.environ, tmp_path / "home"
    )
    assert seen == [str(hidden)]


def test_the_team_of_a_file_works_as_a_team_whatever_its_shape_says(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "TEAM.toml": '[team]\nname = "pair"\n[shape]\nevals = "results"\n'
            '[[member]]\nname = "ann"\n[[task]]\nid = "1"\nsubject = "Any"\n'
        },
    )
    agents = ArmAgents(driver="scripted", team_file=tmp_path / "TEAM.toml")
    assert team(task_of(tmp_path), agents, 1.0).shape is None


@pytest.mark.anyio
async def test_what_is_left_of_a_removal_is_not_taken_for_all_that_was_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ended while it removed the folder: nobody knows any more what agents used."""
    folder = tmp_path / "0123"
    folder.mkdir()
    assert await clear(folder, os.environ) == 0.0
    put(folder, {"home-eval-solo/x": "", "agents/project/a.py": ""})

    def killed(path: Path) -> None:
        if path.exists():
            raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("bullpen.runs.eval.trial.remove_tree", killed)
        with pytest.raises(OSError, match="killed"):
            remove_folder(folder)
    assert await clear(folder, os.environ) is None
    assert os.listdir(tmp_path) == []
