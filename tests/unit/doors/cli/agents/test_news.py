"""Happenings as people read them: what somebody plans in one go is told in one go."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.run_screen import RunScene, picture
from bullpen.doors.cli.output.watch_run import Watcher
from bullpen.protocol.changes import Event, PutRequest
from bullpen.protocol.request import Request
from bullpen.protocol.team import TeamConfig
from bullpen.runs.watch.outcome import Progress
from bullpen.team.snapshot import Snapshot
from bullpen.view.news import folded, news, planner

TEAM = Snapshot(
    team=TeamConfig.new(name="calc", created_at=1, members=[]),
    members=(),
    tasks=(),
    pending=(),
    seq=1,
    taken_ms=1,
    problems=(),
)


def added(*ids: int, who: str = "team-lead") -> list[str]:
    """That somebody added tasks."""
    return [f"{who} added task #{number} Part {number}" for number in ids]


def gave(to: str, *ids: int) -> list[str]:
    """That the lead gave tasks to somebody."""
    return [f"team-lead gave task #{number} to {to}" for number in ids]


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ([], []),
        (added(1), added(1)),
        (added(1, 2), ["team-lead added tasks #1, #2"]),
        (added(*range(1, 10)), ["team-lead added tasks #1-#9"]),
        (added(9, 10, 11, 13), ["team-lead added tasks #9-#11, #13"]),
        (gave("bob", 2), gave("bob", 2)),
        (gave("bob", 2, 3), ["team-lead gave tasks #2, #3 to bob"]),
        (gave("bob", 2, 2), gave("bob", 2)),
        (gave("al", 2) + gave("bob", 3, 4, 5) + gave("al", 9),
         ["team-lead gave tasks to al (#2, #9), bob (#3-#5)"]),
        (added(1) + gave("al", 1) + added(2) + gave("al", 2),
         ["team-lead added tasks #1, #2", "team-lead gave tasks #1, #2 to al"]),
        (added(1) + gave("al", 1), [*added(1), *gave("al", 1)]),
        (["bob is ready", *added(1, 2)], ["bob is ready", *added(1, 2)]),
    ],
)  # fmt: skip
def test_a_run_of_plans_is_one_line(run: list[str], told: list[str]) -> None:
    assert folded(run) == told


def test_what_others_say_is_not_taken_for_a_plan() -> None:
    assert planner("bob to team-lead: team-lead added task #1 Part 1") is None
    assert planner("bob completed task #1 team-lead added task #2 x") is None
    assert planner("team-lead added task #1") == "team-lead"


def test_very_many_plans_stay_one_line() -> None:
    (line,) = folded(added(*range(1, 400, 2)))
    assert len(line) == 160
    assert line.endswith("…")


def test_a_picture_shows_the_time_at_which_the_plans_ended() -> None:
    lines = [*added(1, 2), "bob is ready", *added(3, who="bob"), *added(4)]
    scene = RunScene("Plan", Progress("calc", TEAM, []))
    scene.news += [(f"05:00:0{number}", line) for number, line in enumerate(lines)]
    shown = picture(scene, width=80, height=24, elapsed_s=1, now_ms=1)
    assert [line.plain.rstrip() for line in shown if line.plain.startswith("05:")] == [
        "05:00:01  team-lead added tasks #1, #2",
        "05:00:02  bob is ready",
        "05:00:03  bob added task #3 Part 3",
        "05:00:04  team-lead added task #4 Part 4",
    ]


def _said(capsys: pytest.CaptureFixture[Any]) -> list[str]:
    return [line[10:] for line in capsys.readouterr().out.splitlines()]


def test_plain_lines_wait_for_the_rest_of_a_plan_but_lose_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with Watcher(Page(json=False), "Plan") as watcher:
        watcher.saw(Progress("calc", TEAM, [], added(1, 2)))
        watcher.saw(Progress("calc", TEAM, [], added(3)))
        assert _said(capsys) == ["team calc: Plan"]
        watcher.saw(Progress("calc", TEAM, [], ["bob is ready", *added(4)]))
        assert _said(capsys) == ["team-lead added tasks #1-#3", "bob is ready"]
        now += 2
        watcher.saw(Progress("calc", TEAM, []))
        assert _said(capsys) == added(4)
        watcher.saw(Progress("calc", TEAM, [], added(5)))
        assert _said(capsys) == []
    assert _said(capsys) == added(5)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": "approved", "voice": "human"}, "you allowed alice: Bash make"),
        ({"state": "denied", "voice": "human", "answer": {"feedback": "No"}},
         "you denied alice: Bash make (No)"),
        ({"state": "denied", "voice": "policy"}, "a rule denied alice: Bash make"),
        ({"state": "approved", "voice": "agent", "kind": "plan", "subject": {"plan": "# Do it"}},
         "team-lead approved alice: plan: Do it"),
        ({"state": "expired"}, "nobody answered alice: Bash make"),
        ({"state": "pending"}, None),
        ({"state": "approved", "kind": "shutdown"}, "team-lead agrees to end"),
    ],
)  # fmt: skip
def test_what_came_of_a_question_is_news(fields: dict[str, Any], told: str | None) -> None:
    asked = {"id": "perm-1", "kind": "permission", "sender": "alice", "to": "team-lead",
             "created_ms": 1, "answered_by": "team-lead",
             "subject": {"toolName": "Bash", "input": {"command": "make"}}}  # fmt: skip
    event = Event(
        seq=1,
        time="2026-11-15T05:10:11.500Z",
        actor="team-lead",
        op="request.answer",
        changes=(PutRequest(Request.new(**{**asked, **fields})),),
    )
    assert news(event) == ([told] if told else [])
