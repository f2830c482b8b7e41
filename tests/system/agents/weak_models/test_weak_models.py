"""The scenarios of agent teams end well with weak models, too.

Their models never claim, forget to complete and to report, ignore errors, call tools with wrong
fields and answer late. The gate plays a few seeds; BULLPEN_NIGHTLY=1 plays 20 of each scenario.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .play import play
from .weak_model import Scenario, report_of

TURNS_MAX = 12
SEEDS = range(20 if os.environ.get("BULLPEN_NIGHTLY") else 2)

VETO = """
mark={folder}/$(printf %s "$BULLPEN_AGENT-{event}" | tr -c 'a-zA-Z0-9-' _)
n=$(cat "$mark" 2>/dev/null || echo 0)
test "$n" -ge {times} && exit 0
echo $((n + 1)) > "$mark"
echo "Not yet: look once more." >&2
exit 2
"""


def veto(event: str, folder: Path, times: int) -> dict[str, object]:
    """A hook that refuses so many times, for each member."""
    command = VETO.format(folder=folder, event=event, times=times)
    return {event: [{"hooks": [{"type": "command", "command": command}]}]}


REVIEWERS = ("security-reviewer", "perf-reviewer", "tests-reviewer")


def three_reviewers(folder: Path) -> Scenario:
    return Scenario(
        "three reviewers",
        {
            "Review for security": REVIEWERS[0],
            "Review for performance": REVIEWERS[1],
            "Review for test coverage": REVIEWERS[2],
        },
        {name: {} for name in REVIEWERS},
    )


def competing_hypotheses(folder: Path) -> Scenario:
    return Scenario(
        "competing hypotheses",
        {"Prove that the cache is to blame": "cache", "Prove that it is a race": "race"},
        {"cache": {}, "race": {}},
        peers={"cache": "race", "race": "cache"},
    )


def plan_approval(folder: Path) -> Scenario:
    return Scenario(
        "plan approval",
        {"Design and write the module": "architect"},
        {"architect": {"mode": "plan"}},
        rejected=1,
    )


def hooks_that_veto(folder: Path) -> Scenario:
    return Scenario(
        "hooks that veto",
        {"Write the manual": "writer", "Test the parser": "tester"},
        {"writer": {}, "tester": {}},
        hooks={**veto("TaskCompleted", folder, 1), **veto("TeammateIdle", folder, 1)},
    )


def delegate_lead(folder: Path) -> Scenario:
    return Scenario(
        "delegate",
        {"Part one": "ann", "Part two": "bob", "Part three": "bob"},
        {"ann": {}, "bob": {}},
        delegate=True,
    )


SCENARIOS = (
    three_reviewers,
    competing_hypotheses,
    plan_approval,
    hooks_that_veto,
    delegate_lead,
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("made", SCENARIOS, ids=lambda made: made.__name__)
async def test_a_team_of_weak_models_does_every_task_and_reports(
    made: object, seed: int, tmp_path: Path
) -> None:
    assert callable(made)
    scenario = made(tmp_path)
    played = await play(scenario, seed, tmp_path)
    story = "\n".join(f"{each.op} {each.actor}" for each in played.events[-60:])
    left = [(task.subject, task.status, task.owner) for task in played.tasks]
    assert {task.status for task in played.tasks} == {"completed"}, f"{left}\n{story}"
    assert len(played.tasks) == len(scenario.tasks)
    assert max(played.turns.values()) <= TURNS_MAX, (played.turns, story)
    for name, said in played.reports.items():
        assert any(report_of(name) in text for text in said), (name, said, story)
    if made is three_reviewers:
        for subject, names in played.handed.items():
            assert names[0] == scenario.tasks[subject], (subject, names)
