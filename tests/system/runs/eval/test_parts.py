"""An eval in parts: hosts that share no folder, and one report of all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import jsonschema  # type: ignore[import-untyped]
import pytest

from bullpen import Conflict, Invalid
from bullpen.doors.cli.output.json_schemas import schema_of
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.eval_report import report_of
from bullpen.runs.eval.evaluate import EvalRequest, Evaluated, evaluate
from bullpen.runs.eval.plan import Part, Trial
from bullpen.runs.eval.results import Results, TrialRecord
from support.evals.records import make_results
from support.evals.suites import FINISH, bash, make_suite, put, script

pytestmark = pytest.mark.anyio

FIX = "sed -i 's/a - b/a + b/' adder.py"
USED: dict[str, object] = {"usage": {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.01}}


async def run(folder: Path, name: str, **more: object) -> Evaluated:
    """Run an eval of a suite into a folder of results."""
    if not (folder / "suite").exists():
        make_suite(folder / "suite", tasks=3)
    request = EvalRequest(
        folder / "suite",
        folder / name,
        ("oracle", "empty"),
        ArmAgents(driver="scripted"),
        **more,  # type: ignore[arg-type]
    )
    return await evaluate(request, os.environ)


async def test_the_report_over_the_parts_is_that_of_one_run(tmp_path: Path) -> None:
    await run(tmp_path, "whole", repeat=2, jobs=2)
    folders = []
    for number in (1, 2, 3):
        done = await run(tmp_path, f"part-{number}", repeat=2, jobs=2, part=Part(number, 3))
        assert (done.trials, done.judged) == (4, 4)
        folders.append(tmp_path / f"part-{number}")
    whole, parts = report_of(tmp_path / "whole"), report_of(*folders)
    assert parts.parts == ("1/3", "2/3", "3/3")
    assert parts.hosts == whole.hosts
    assert (whole.missing, parts.missing) == (0, 0)
    assert report_of(folders[0]).missing == 8, "the numbers of one part are not those of the eval"

    def timeless(record: TrialRecord) -> TrialRecord:
        return replace(record, began="", measures=replace(record.measures, seconds=0.0))

    assert [*map(timeless, parts.records)] == [*map(timeless, whole.records)]
    assert {arm.arm: arm.rate for arm in parts.arms} == {arm.arm: arm.rate for arm in whole.arms}
    assert parts.comparisons == whole.comparisons


async def test_an_eval_has_no_more_parts_than_tries(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"4/4 .* no trials") as said:
        await run(tmp_path, "results", part=Part(4, 4))
    assert "at most 3 parts" in (said.value.remedy or "")
    assert not (tmp_path / "results").exists()


async def test_a_folder_of_another_suite_is_refused(tmp_path: Path) -> None:
    await run(tmp_path, "one", part=Part(1, 3))
    put(tmp_path / "suite" / "tasks" / "add-1" / "tests", {"more.py": ""})
    await run(tmp_path, "two", part=Part(2, 3))
    with pytest.raises(Conflict, match=r"two has the results of another eval: suite_digest differ"):
        report_of(tmp_path / "one", tmp_path / "two")


def test_a_copy_of_a_trial_counts_once_and_another_verdict_is_refused(tmp_path: Path) -> None:
    one = make_results(tmp_path / "one", {"solo": 10, "team": 5})
    shutil.copytree(one, tmp_path / "copy")
    both = report_of(one, tmp_path / "copy", one)
    assert [arm.trials for arm in both.arms] == [20, 20]
    other = make_results(tmp_path / "other", {"solo": 10, "team": 5}, host="there")
    with pytest.raises(Conflict, match=r"has a verdict in .*one and another one in .*other"):
        report_of(one, other)


def test_a_verdict_counts_where_another_folder_has_only_an_error(tmp_path: Path) -> None:
    one = make_results(tmp_path / "one", {"solo": 10, "team": 5}, part=Part(1, 2))
    two = make_results(tmp_path / "two", {"solo": 10, "team": 5}, part=Part(2, 2))
    Results(one).record(TrialRecord("t01", "solo", 1, "error", "no sandbox", host="here"))
    for folders in ((one, two), (two, one)):
        found = report_of(*folders)
        assert (found.missing, [arm.errors for arm in found.arms]) == (0, [0, 0])


def bullpen(*words: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bullpen", "eval", *words],
        cwd=cwd,
        env={**os.environ, "BULLPEN_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def started(*words: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "bullpen", "eval", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def test_two_machines_as_the_page_says_it(tmp_path: Path) -> None:
    """Both commands, a copy of the folder, and one report: with a script in place of a model."""
    here, there = tmp_path / "here", tmp_path / "there"
    for each in (here, there):
        make_suite(each / "evals", tasks=2)
        script(each, {"team-lead": [bash(FIX), USED, FINISH]})
    agents = ("--driver", "scripted", "--script", "s.toml")
    words = ("run", "evals", "--arms", "solo,empty", *agents, "--budget-usd", "20")
    bullpen(*words, "--part", "1/2", "--results", "part-1", cwd=here)
    bullpen(*words, "--part", "2/2", "--results", "part-2", cwd=there)
    shutil.copytree(there / "part-2", here / "part-2")
    for path in (here / "part-2" / "trials").glob("*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "host": "there"}))
    found = json.loads(bullpen("report", "part-1", "part-2", "--json", cwd=here))
    jsonschema.Draft202012Validator(schema_of("eval")).validate(found)
    assert found["missing"] == 0
    assert {arm["arm"]: (arm["passed"], arm["trials"]) for arm in found["arms"]} == {
        "solo": (2, 2),
        "empty": (0, 2),
    }
    assert found["parts"] == ["1/2", "2/2"]
    assert {each["trials"] for each in found["hosts"]} == {2}
    assert found["spentUsd"] == pytest.approx(0.02)
    assert found["trialUsd"] == 10.0
    page = bullpen("report", "part-1", "part-2", "--format", "md", cwd=here)
    assert "- Parts: 1/2, 2/2" in page
    assert "| task | arm | no. | host | verdict | why |" in page
    assert "part differ" in bullpen(*words, "--results", "part-1", cwd=here, code=4)


async def test_a_killed_part_goes_on_and_its_money_is_not_spent_twice(tmp_path: Path) -> None:
    """Both trials of a part are killed at work: what they had used is of the part's share."""
    make_suite(tmp_path / "suite", tasks=2)
    made = script(tmp_path, {"team-lead": [USED, {"sleep": 1.5}, bash(FIX), FINISH]})
    words = ["run", "suite", "--arms", "solo", "--repeat", "2", "--driver", "scripted"]
    words += ["--script", str(made), "--results", "part", "--part", "1/2", "--budget-usd", "0.1"]
    first = started(*words, cwd=tmp_path)
    results = Results(tmp_path / "part")
    with anyio.fail_after(60):
        while not any((tmp_path / "part" / "work").glob("*/home-*/teams/*")):
            assert first.poll() is None, first.communicate()[0].decode()
            await anyio.sleep(0.05)
    await anyio.sleep(1.0)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    [killed] = results.attempts.all()
    assert (killed.usd, killed.spent) == (None, 0.025)
    bullpen(*words, cwd=tmp_path)
    attempts = results.attempts.all()
    assert len(attempts) == 3
    assert all(each.usd is not None for each in attempts), attempts
    found = report_of(tmp_path / "part")
    assert (found.missing, [arm.trials for arm in found.arms]) == (2, [2])
    assert found.spent_usd == pytest.approx(sum(each.spent for each in attempts))
    assert 0.02 <= found.spent_usd <= 0.05


async def test_errors_cost_money_too(tmp_path: Path) -> None:
    """An agent that used money, and a trial that could then not be judged, tried again."""
    make_suite(tmp_path / "suite", more="hosts = []\n")
    made = script(tmp_path, {"team-lead": [USED, bash(FIX), FINISH]})
    trial = Trial("add-1", "solo", 1, 0.015)
    request = EvalRequest(
        tmp_path / "suite",
        tmp_path / "results",
        ("solo",),
        ArmAgents(driver="scripted", script=made),
        budget_usd=0.015,
    )
    results = Results(tmp_path / "results")
    results.folder.mkdir()
    # The folder in which it is to be judged cannot be made.
    with pytest.MonkeyPatch.context() as patched:

        def fails(*_: object) -> None:
            raise OSError("no space left")

        patched.setattr("bullpen.runs.eval.trial.judge", fails)
        done = await evaluate(request, os.environ)
    assert (done.errors, [each.usd for each in results.attempts.all()]) == (1, [0.01])
    done = await evaluate(request, os.environ)
    assert (done.judged, done.unpaid) == (0, 1), "0.005 of 0.015 is left"
    assert report_of(request.results).spent_usd == 0.01
    assert not results.is_recorded(trial)
