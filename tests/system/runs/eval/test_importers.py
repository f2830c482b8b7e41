"""Suites made of a repository's own commits, and of other benchmarks' tasks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bullpen import Conflict, Invalid, NotFound
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.evaluate import EvalRequest, evaluate
from bullpen.runs.eval.importers.from_commits import MakeRequest, instructions, make_suite
from bullpen.runs.eval.importers.import_suite import Form, ImportRequest, import_suite
from bullpen.runs.eval.importers.new_suite import MadeSuite
from bullpen.runs.eval.results import Results
from bullpen.runs.eval.suite import read_suite
from support.evals.suites import CHECK, RIGHT, WRONG, put

pytestmark = pytest.mark.anyio

RUN = "PYTHONPATH=. sh -c 'for each in {files}; do python3 $each || exit 1; done'"


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(folder: Path, message: str, files: dict[str, str]) -> str:
    put(folder, files)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "clones" / "adder"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "Begin", {"adder.py": WRONG})
    return folder


async def verdicts(folder: Path, tmp_path: Path) -> dict[str, list[str]]:
    """What the two arms without agents come to, by arm."""
    results = tmp_path / "verdicts"
    request = EvalRequest(folder, results, ("oracle", "empty"), ArmAgents(), jobs=2)
    await evaluate(request, os.environ)
    found: dict[str, list[str]] = {"oracle": [], "empty": []}
    for record in Results(results).records():
        found[record.arm].append(record.verdict if record.verdict != "error" else record.why)
    return found


async def test_changes_with_tests_become_tasks(source: Path, tmp_path: Path) -> None:
    commit(source, "Say what it does", {"README.md": "Adds.\n"})
    commit(
        source,
        "Add for real\n\nIt subtracted.\n\nSigned-off-by: ann <ann@example.com>",
        {"adder.py": RIGHT, "tests/test_add.py": CHECK},
    )
    commit(source, "Test more", {"tests/test_more.py": "import adder\n"})
    made = make_suite(MakeRequest(source, tmp_path / "suite", RUN))
    assert [name.rpartition("-")[0] for name in made.tasks] == ["Add-for-real"]
    assert [(each.name[11:], each.why) for each in made.skipped] == [
        ("Test more", "it changes only tests"),
        ("Say what it does", "it adds or changes no test that can be run"),
        ("Begin", "it is the first commit"),
    ]
    [task] = read_suite(made.folder).tasks
    assert (
        task.instructions == "Make this change to the project:\n\nAdd for real\n\nIt subtracted.\n"
    )
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}


async def test_a_merge_is_one_change_with_the_words_of_its_commits(
    source: Path, tmp_path: Path
) -> None:
    git(source, "checkout", "-qb", "work")
    commit(source, "Add for real", {"adder.py": RIGHT})
    commit(source, "Test it", {"tests/test_add.py": CHECK})
    git(source, "checkout", "-q", "main")
    git(source, "merge", "-q", "--no-ff", "-m", "Merge work", "work")
    made = make_suite(MakeRequest(source, tmp_path / "suite", RUN, last=1))
    [task] = read_suite(made.folder).tasks
    assert "Merge work\n\nAdd for real\n\nTest it" in task.instructions
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}


async def test_large_changes_are_left_out(source: Path, tmp_path: Path) -> None:
    commit(source, "Much", {"adder.py": RIGHT + "#\n" * 50, "tests/test_add.py": CHECK})
    with pytest.raises(Invalid, match="more than 20 lines"):
        make_suite(MakeRequest(source, tmp_path / "suite", RUN, last=1, lines_max=20))


async def test_a_suite_is_not_written_over_something(source: Path, tmp_path: Path) -> None:
    commit(source, "Add", {"adder.py": RIGHT, "tests/test_add.py": CHECK})
    put(tmp_path / "suite", {"mine.txt": "x"})
    with pytest.raises(Conflict, match="not empty"):
        make_suite(MakeRequest(source, tmp_path / "suite", RUN))


async def test_there_has_to_be_a_repository(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no git repository"):
        make_suite(MakeRequest(tmp_path, tmp_path / "suite", RUN))


def test_instructions_have_no_trailers() -> None:
    text = instructions("Fix it\n\nCo-authored-by: x <x@example.com>")
    assert text == "Make this change to the project:\n\nFix it"


def imported(form: Form, place: Path, tmp_path: Path, **more: str | None) -> MadeSuite:
    return import_suite(
        ImportRequest(form, place, tmp_path / "suite", clones=tmp_path / "clones", **more)
    )


async def test_instances_of_swe_bench(source: Path, tmp_path: Path) -> None:
    base = git(source, "rev-parse", "HEAD")
    commit(source, "Add", {"adder.py": RIGHT, "tests/test_add.py": CHECK})
    row = {
        "instance_id": "ann__adder-1",
        "repo": "ann/adder",
        "base_commit": base,
        "problem_statement": "It subtracts.",
        "patch": git(source, "diff", base, "HEAD", "--", "adder.py") + "\n",
        "test_patch": git(source, "diff", base, "HEAD", "--", "tests") + "\n",
        "FAIL_TO_PASS": '["tests/test_add.py"]',
    }
    gone = {**row, "instance_id": "ann__gone-1", "repo": "ann/gone"}
    bad = {**row, "instance_id": "ann__bad-1", "test_patch": "diff --git a/x b/x\n"}
    path = tmp_path / "instances.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (row, gone, bad)))
    made = imported("swe-bench", path, tmp_path, test=RUN)
    assert made.tasks == ("ann_adder-1",)
    assert [each.name for each in made.skipped] == ["ann__gone-1", "ann__bad-1"]
    assert "no clone of ann/gone" in made.skipped[0].why
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}


async def test_pairs_of_cooperbench(source: Path, tmp_path: Path) -> None:
    base = git(source, "rev-parse", "HEAD")
    task = tmp_path / "dataset" / "adder_task" / "task7"
    put(
        task,
        {
            "Dockerfile": "FROM python:3.12\n"
            f"RUN git clone https://github.com/ann/adder.git repo && git checkout {base}\n"
        },
    )
    both: dict[str, str] = {}
    for number, code, check in (
        (1, {"adder.py": RIGHT}, CHECK),
        (
            2,
            {"twice.py": "def twice(a):\n    return a * 2\n"},
            "import twice\nassert twice.twice(2) == 4\n",
        ),
    ):
        git(source, "checkout", "-q", base)
        commit(source, f"F{number}", {**code, f"tests/test_{number}.py": check})
        both |= code
        put(
            task / f"feature{number}",
            {
                "feature.md": f"**Title**: Feature {number}\n\nDo it.\n",
                "feature.patch": git(source, "diff", base, "HEAD", "--", *code) + "\n",
                "tests.patch": git(source, "diff", base, "HEAD", "--", "tests") + "\n",
            },
        )
    git(source, "checkout", "-q", base)
    commit(source, "Both", both)
    put(task, {"combined.patch": git(source, "diff", base, "HEAD") + "\n"})
    made = imported("cooperbench", tmp_path / "dataset", tmp_path, test=RUN)
    assert made.tasks == ("adder-task7-f1-2",), made.skipped
    [found] = read_suite(made.folder).tasks
    assert [part.subject for part in found.parts] == ["Feature 1", "Feature 2"]
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}


HARBOR_TEST = """#!/bin/bash
mkdir -p /logs/verifier
if grep -q hello /app/greeting.txt && test -f /tests/check.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""


async def test_folders_of_harbor(tmp_path: Path) -> None:
    put(
        tmp_path / "tasks" / "greet",
        {
            "task.toml": 'version = "1.0"\n',
            "instruction.md": "Write hello into /app/greeting.txt.\n",
            "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY data/ /app/data/\n",
            "environment/data/names.txt": "ann\n",
            "tests/test.sh": HARBOR_TEST,
            "tests/check.txt": "",
            "solution/solve.sh": "#!/bin/bash\necho hello > /app/greeting.txt\n",
        },
    )
    put(
        tmp_path / "tasks" / "build",
        {
            "instruction.md": "Build it.\n",
            "environment/Dockerfile": "FROM ubuntu:24.04\nRUN apt-get install -y gcc\n",
            "tests/test.sh": HARBOR_TEST,
        },
    )
    made = imported("harbor", tmp_path / "tasks", tmp_path)
    assert made.tasks == ("greet",)
    assert [(each.name, each.why) for each in made.skipped] == [
        ("build", "its image needs `RUN apt-get install -y gcc`")
    ]
    [task] = read_suite(made.folder).tasks
    assert task.instructions == "Write hello into greeting.txt.\n"
    assert (task.folder / "repo" / "data" / "names.txt").read_text() == "ann\n"
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}


async def test_folders_of_terminal_bench(tmp_path: Path) -> None:
    put(
        tmp_path / "tasks" / "greet",
        {
            "task.yaml": "instruction: |-\n  Write hello into /app/greeting.txt.\n",
            "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
            "run-tests.sh": "python3 $TEST_DIR/test_outputs.py\n",
            "tests/test_outputs.py": "assert 'hello' in open('/app/greeting.txt').read()\n",
            "solution.sh": "echo hello > /app/greeting.txt\n",
        },
    )
    made = imported("terminal-bench", tmp_path / "tasks", tmp_path)
    assert made.tasks == ("greet",)
    assert await verdicts(made.folder, tmp_path) == {"oracle": ["passed"], "empty": ["failed"]}
