"""Happenings as people read them: what somebody plans in one go is told in one go."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import Watcher
from bullpen.protocol.changes import Event, PutRequest, PutTeam
from bullpen.protocol.request import Request
from bullpen.protocol.team import Finished, TeamConfig, TeamFacts
from bullpen.runs.watch.outcome import Progress
from bullpen.team.snapshot import Snapshot
from bullpen.view.news import folded, news, planner
from support.rows import each_row

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


@each_row(
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


def _said(capsys: pytest.CaptureFixture[Any]) -> list[str]:
    return [line[10:] for line in capsys.readouterr().out.splitlines()]


def test_plain_lines_wait_for_the_rest_of_a_plan_but_lose_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    watcher = Watcher(Page(json=False), "Plan")
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
    watcher.close()
    assert _said(capsys) == added(5)


def test_a_long_goal_is_cut_after_a_word_in_plain_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Watcher(Page(json=False), "Make every test\npass " * 40).saw(Progress("calc", TEAM, []))
    (line,) = _said(capsys)
    assert len(line) < 220 and line.endswith((" Make…", " every…", " test…", " pass…"))


@pytest.mark.parametrize(
    ("voice", "told"), [(None, "team-lead has finished"), ("human", "you ended the run")]
)
def test_who_ended_a_run_is_news(voice: str | None, told: str) -> None:
    facts = TeamFacts.new(
        finished=Finished.new(by="team-lead", at_ms=1, summary="", voice=voice).raw
    )
    change = PutTeam({"bullpen": facts.raw})
    event = Event(seq=1, time="t", op="team.finish", actor="team-lead", changes=(change,))
    assert news(event) == [told]


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
