"""Whole evals: arms, odds, kills, several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from bullpen import Invalid, NotFound
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.eval_report import EvalReport, report_of
from bullpen.runs.eval.evaluate import EvalRequest, Evaluated, evaluate
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.statistics import wilson
from support.evals.suites import FINISH, bash, make_suite, put, script

pytestmark = pytest.mark.anyio

TRIALS = int(os.environ.get("BULLPEN_EVAL_TRIALS", "3"))
"""How many trials of each arm show its odds; 200 in the full run."""

SURE = 3.89
"""Standard deviations of an interval of 99.99 %: a bounded sample must not fail by chance."""

FIX = "sed -i 's/a - b/a + b/' adder.py"
USED: dict[str, object] = {"usage": {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.01}}
DONE: dict[str, object] = {
    "tool": "TaskUpdate",
    "input": {"taskId": "{task}", "status": "completed"},
}


def with_odds(of_256: int) -> dict[str, object]:
    """A step that does the task with these odds. The dice are the system's."""
    return bash(f'[ "$(od -An -N1 -tu1 /dev/urandom)" -lt {of_256} ] && {FIX}; true')


async def run(
    folder: Path,
    arms: tuple[str, ...],
    agents: ArmAgents | None = None,
    *,
    count: int = 1,
    **more: object,
) -> tuple[Evaluated, EvalReport, list[TrialRecord]]:
    """Run an eval in a folder."""
    suite = folder / "suite"
    if not suite.exists():
        make_suite(suite, tasks=count)
    request = EvalRequest(
        suite,
        folder / "results",
        arms,
        agents or ArmAgents(driver="scripted"),
        **more,  # type: ignore[arg-type]
    )
    done = await evaluate(request, os.environ)
    return done, report_of(folder / "results"), Results(folder / "results").records()


async def test_the_oracle_always_passes_and_doing_nothing_never_does(tmp_path: Path) -> None:
    done, report, records = await run(tmp_path, ("oracle", "empty"), count=3, repeat=2, jobs=2)
    assert (done.trials, done.judged, done.errors) == (12, 12, 0)
    assert {arm.arm: (arm.passed, arm.trials) for arm in report.arms} == {
        "oracle": (6, 6),
        "empty": (0, 6),
    }
    assert {record.measures.usd for record in records} == {0.0}


async def test_odds_of_arms_are_found_again(tmp_path: Path) -> None:
    """One agent that does 154 of 256 tasks, and a team without a lead that does 77 of 256."""
    put(
        tmp_path,
        {
            "TEAM.toml": '[team]\nname = "pair"\n[[member]]\nname = "ann"\ndriver = "scripted"\n'
            'backend = "in-process"\nscript = "s.toml"\n[[task]]\nid = "1"\nsubject = "Any"\n'
        },
    )
    made = script(
        tmp_path,
        {
            "team-lead": [with_odds(154), USED, FINISH],
            "ann": [with_odds(77), USED, DONE],
        },
    )
    agents = ArmAgents(driver="scripted", script=made, team_file=tmp_path / "TEAM.toml")
    done, report, _ = await run(
        tmp_path, ("solo", "team"), agents, repeat=TRIALS, jobs=2, budget_usd=100.0
    )
    assert (done.judged, done.errors) == (2 * TRIALS, 0), done
    for arm, odds in zip(report.arms, (154 / 256, 77 / 256), strict=True):
        assert arm.trials == TRIALS
        wide = wilson(arm.passed, arm.trials, SURE)
        assert wide.low <= odds <= wide.high
        assert arm.usd == pytest.approx(0.01 * TRIALS)
        print(arm.arm, odds, arm.passed, arm.trials, arm.rate)


async def test_a_team_merges_what_its_members_do(tmp_path: Path) -> None:
    """The lead of the usual team gives a task to a teammate, whose work is merged."""
    give: dict[str, object] = {
        "tool": "TaskCreate",
        "input": {"subject": "Add", "description": "Correct add()."},
    }
    made = tmp_path / "team.toml"
    made.write_text(
        script(
            tmp_path, {"team-lead": [give], "ann": [bash(FIX), USED, DONE], "ben": []}
        ).read_text()
        + '\n[[agents.team-lead.turns]]\nwhen = "any"\nrepeat = true\nsteps = ['
        # As long as the work is not merged, the lead cannot finish.
        + '{tool = "Finish", input = {summary = "Done."}, may_fail = true}, {sleep = 2}, ' * 5
        + '{tool = "Finish", input = {summary = "Done."}, may_fail = true}]\n'
    )
    agents = ArmAgents(driver="scripted", script=made)
    done, report, records = await run(tmp_path, ("team",), agents, budget_usd=1.0)
    assert done.judged == 1, records
    assert [record.verdict for record in records] == ["passed"], records
    assert report.arms[0].usd == pytest.approx(0.01)


async def test_a_reviewer_can_send_work_back_once(tmp_path: Path) -> None:
    review = bash("grep -q 'a - b' adder.py && echo 'It subtracts.' > REVIEW.md")
    # The agent corrects it only when it works for the second time.
    work = bash(f"if [ -e once ]; then {FIX}; fi; touch once")
    made = script(tmp_path, {"team-lead": [work, USED, FINISH], "reviewer": [review, USED, DONE]})
    agents = ArmAgents(driver="scripted", script=made)
    _, report, records = await run(tmp_path, ("solo+review",), agents, budget_usd=1.0)
    assert [record.verdict for record in records] == ["passed"], records
    assert report.arms[0].usd == pytest.approx(0.03)
    [patch] = (tmp_path / "results" / "trials").glob("*.patch")
    assert "REVIEW.md" not in patch.read_text()


async def test_a_reviewer_sees_the_change_and_no_review_of_its_author(tmp_path: Path) -> None:
    """What was deleted is not there, and who made the change does not approve it."""
    first = bash("if [ ! -e once ]; then rm README.md; echo APPROVED > REVIEW.md; fi")
    work = bash(f"if [ -e once ]; then {FIX}; fi; touch once")
    look = bash("[ -e README.md ] || [ -e REVIEW.md ] || echo 'Correct it.' > REVIEW.md")
    made = script(tmp_path, {"team-lead": [first, work, FINISH], "reviewer": [look, USED, DONE]})
    agents = ArmAgents(driver="scripted", script=made)
    _, _, records = await run(tmp_path, ("solo+review",), agents, budget_usd=1.0)
    assert [record.verdict for record in records] == ["passed"], records


async def test_an_approved_change_is_not_worked_on_again(tmp_path: Path) -> None:
    review = bash("echo APPROVED > REVIEW.md")
    made = script(
        tmp_path, {"team-lead": [bash(FIX), USED, FINISH], "reviewer": [review, USED, DONE]}
    )
    agents = ArmAgents(driver="scripted", script=made)
    _, report, records = await run(tmp_path, ("solo+review",), agents, budget_usd=1.0)
    assert [record.verdict for record in records] == ["passed"], records
    assert report.arms[0].usd == pytest.approx(0.02)


async def test_hooks_of_the_project_are_not_run(tmp_path: Path) -> None:
    """A stranger may have written them, and hooks run outside the sandbox."""
    ran = tmp_path / "ran"
    hook = {"hooks": [{"type": "command", "command": f"touch {ran}"}]}
    settings = json.dumps({"hooks": {"PreToolUse": [hook], "SessionStart": [hook]}})
    make_suite(tmp_path / "suite", files={".claude/settings.json": settings})
    made = script(tmp_path, {"team-lead": [bash(FIX), FINISH]})
    _, _, records = await run(tmp_path, ("solo",), ArmAgents(driver="scripted", script=made))
    assert [record.verdict for record in records] == ["passed"]
    assert not ran.exists()


async def test_a_lead_alone_cannot_become_a_team(tmp_path: Path) -> None:
    spawn: dict[str, object] = {
        "tool": "Agent",
        "input": {"name": "ben", "prompt": "Help."},
        "may_fail": True,
    }
    made = script(tmp_path, {"team-lead": [spawn, bash("bullpen ps > ps.txt 2>&1"), FINISH]})
    _, _, records = await run(tmp_path, ("solo",), ArmAgents(driver="scripted", script=made))
    assert [record.verdict for record in records] == ["failed"]
    patches = list((tmp_path / "results" / "trials").glob("*.patch"))
    assert not any("ben" in path.read_text() for path in patches)


async def test_an_agent_that_cannot_start_is_an_error_and_no_failure(tmp_path: Path) -> None:
    put(tmp_path, {"s.toml": "[agents.nobody]\n"})
    agents = ArmAgents(driver="scripted", script=tmp_path / "s.toml")
    done, report, records = await run(tmp_path, ("solo",), agents)
    assert (done.judged, done.errors) == (0, 1)
    assert "no turns for 'team-lead'" in records[0].why
    assert report.arms[0].rate is None
    assert report.missing == 1


async def test_the_budget_ends_an_eval(tmp_path: Path) -> None:
    much: dict[str, object] = {"usage": {"input_tokens": 1, "cost_usd": 5.0}}
    made = script(tmp_path, {"team-lead": [much, FINISH]})
    agents = ArmAgents(driver="scripted", script=made)
    done, _, records = await run(tmp_path, ("solo",), agents, repeat=4, budget_usd=2.0)
    assert (done.judged, done.unpaid) == (1, 3)
    assert records[0].limit_usd == 0.5


async def test_agents_that_cost_need_a_budget(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="needs a budget"):
        await run(tmp_path, ("solo",), ArmAgents(driver="native"))


async def test_a_task_that_is_named_twice_is_run_once(tmp_path: Path) -> None:
    done, report, _ = await run(tmp_path, ("empty",), tasks=("add-1", "add-1"))
    assert (done.trials, [arm.trials for arm in report.arms]) == (1, [1])


async def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite")
    request = EvalRequest(suite, tmp_path / "r", ("empty",), ArmAgents(), tasks=("sub",))
    with pytest.raises(NotFound, match="no task 'sub'"):
        await evaluate(request, os.environ)


def started(folder: Path, made: Path) -> subprocess.Popen[bytes]:
    """An eval in a process of its own."""
    words = [sys.executable, "-m", "bullpen", "eval", "run", str(folder / "suite")]
    words += ["--arms", "solo", "--repeat", "6", "--driver", "scripted", "--script", str(made)]
    return subprocess.Popen(
        [*words, "--results", str(folder / "results"), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def trials_in(folder: Path) -> list[Path]:
    return sorted((folder / "results" / "trials").glob("*.json"))


async def test_a_killed_eval_goes_on_where_it_was(tmp_path: Path) -> None:
    make_suite(tmp_path / "suite")
    made = script(tmp_path, {"team-lead": [{"sleep": 0.5}, bash(FIX), USED, FINISH]})
    first = started(tmp_path, made)
    with anyio.fail_after(90):
        while len(trials_in(tmp_path)) < 2:
            assert first.poll() is None, first.communicate()[0].decode()
            await anyio.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in trials_in(tmp_path)}
    assert 2 <= len(before) < 6
    second = started(tmp_path, made)
    out, _ = second.communicate(timeout=180)
    assert second.returncode == 0, out.decode()
    assert len(trials_in(tmp_path)) == 6
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before}
    assert after == before
    assert list((tmp_path / "results" / "work").iterdir()) == []
    assert not list((tmp_path / "results").rglob(".*.json.*"))


async def test_two_processes_share_the_trials_and_run_each_once(tmp_path: Path) -> None:
    make_suite(tmp_path / "suite")
    made = script(tmp_path, {"team-lead": [bash(FIX), USED, FINISH]})
    both = [started(tmp_path, made), started(tmp_path, made)]
    outs = [each.communicate(timeout=180)[0].decode() for each in both]
    assert len(trials_in(tmp_path)) == 6
    assert sum(out.count(": passed") for out in outs) == 6, outs
