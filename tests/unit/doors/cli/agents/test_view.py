"""The agents of a team as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.supervisor.supervisor import Stopped
from bullpen.agents.system.processes import host_name
from bullpen.doors.cli.agents.agents_table import (
    COLUMNS,
    AgentViews,
    rows,
    spawned_line,
    stopped_line,
)
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.screen import Screen
from bullpen.protocol import names
from bullpen.protocol.agent import ProcessRecord, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Finished, Member, TeamConfig, TeamFacts
from bullpen.store.contract import Problem
from bullpen.team.snapshot import MemberView, Snapshot
from bullpen.view import agent_words as words
from bullpen.view.news import THE_RUN_IS_OVER
from support.rows import each_row

EVIL = "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]\u202e\x9b31m\nnext"


NOW_MS = 1_800_000_000_000


def agent(name: str, state: str = "idle", *, ago_s: int = 3, **facts: Any) -> AgentView:
    """An agent that has been in a state for so many seconds."""
    known: dict[str, Any] = {
        "name": name,
        "lead": name == LEAD,
        "state": state,
        "since_ms": NOW_MS - ago_s * 1000,
        "detail": None,
        "driver": "native",
        "backend": "subprocess",
        "model": "m",
        "tool": None,
        "actions": (),
        "tasks": (),
        "unread": 0,
        "usage": Usage.new(turns=3, input_tokens=12_345, output_tokens=210, cost_usd=0.0213),
        "place": ProcessRecord.new(backend="subprocess", host=host_name(), pid=4242),
        "end": None,
        "cause": None,
        "launch": 1,
    }
    return AgentView(**{**known, **facts})


def task(task_id: int, subject: str, status: str = "pending", **facts: Any) -> Task:
    """A task."""
    return Task.new(
        id=str(task_id),
        subject=subject,
        description="",
        status=status,
        **{"blocks": [], "blocked_by": [], **facts},
    )


def snapshot(
    views: Sequence[AgentView],
    tasks: Sequence[Task] = (),
    *,
    pending: Sequence[Request] = (),
    problems: Sequence[Problem] = (),
    result: Finished | None = None,
) -> Snapshot:
    """A team with these agents and tasks; teammates have the colours they would have."""
    members = [
        Member.new(
            agent_id=names.agent_id(view.name, "calc"),
            name=view.name,
            agent_type="general-purpose",
            joined_at=NOW_MS,
            color=None if view.lead else names.color_for(number - 1),
            tmux_pane_id="",
            subscriptions=[],
        )
        for number, view in enumerate(views)
    ]
    return Snapshot(
        team=TeamConfig.new(
            name="calc",
            created_at=NOW_MS,
            members=[m.raw for m in members],
            bullpen=TeamFacts.new(finished=None if result is None else result.raw).raw,
        ),
        members=tuple(
            MemberView(member, view.state, view.since_ms, view.detail, view.tasks, view.unread)
            for member, view in zip(members, views, strict=True)
        ),
        tasks=tuple(tasks),
        pending=tuple(pending),
        seq=1,
        taken_ms=NOW_MS,
        problems=tuple(problems),
    )


def some_agents() -> list[AgentView]:
    """A lead that waits, and teammates in states of every kind."""
    return [
        agent(LEAD, "waiting", ago_s=12, detail="the plan of bob"),
        agent(
            "alice",
            "working",
            tool="Bash",
            detail="pytest -q tests/test_parser.py -k precedence",
            tasks=("2",),
            unread=2,
        ),
        agent("bob", "working", ago_s=75, tasks=("3",)),
        agent("carol", "idle", ago_s=190, actions=("TaskUpdate 1", "SendMessage team-lead")),
        agent("dave", "failed", cause="The model API said no: 401", usage=Usage.new(unpriced=2)),
        agent("erin-with-a-long-name", "stopped", ago_s=400, end="finished"),
    ]


def some_tasks() -> list[Task]:
    """Tasks that are as far as tasks can be."""
    return [
        task(1, "Write the lexer", "completed", owner="carol"),
        task(2, "Write the parser with precedence and unary minus", "in_progress", owner="alice"),
        task(3, "Write the README", "in_progress", owner="bob"),
        task(4, "Test both together", blocked_by=["2", "3"]),
        task(5, "Command line entry point"),
    ]


def _shown(views: list[AgentView], capsys: pytest.CaptureFixture[str], **facts: Any) -> list[str]:
    """What a terminal of 100 columns shows of agents."""
    page = Screen()
    page.console.width = 100
    AgentViews(page, reader=LEAD).agents(views, snapshot(views, some_tasks(), **facts))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_a_row_says_who_does_what_since_when_and_at_what_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _shown(some_agents(), capsys)
    assert shown[0].split() == ["agent", "state", "used", "unread", "doing"]
    rows = [line for line in shown if line.split()[0] in (LEAD, "alice", "bob", "carol", "dave")]
    assert [" ".join(row.split()) for row in rows] == [
        "team-lead waiting 12s 12.6k $0.021 waits: the plan of bob",
        "alice working 3s 12.6k $0.021 2 #2 Write the parser with precedence",
        "bob working 1m 12.6k $0.021 #3 Write the README: thinking",
        "carol idle 3m 12.6k $0.021 last: SendMessage team-lead",
        "dave failed 3s 0 ? The model API said no: 401",
    ]


def test_a_lead_that_is_no_agent_has_a_row_only_with_unread_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    person: dict[str, Any] = {"driver": None, "backend": None, "unread": 0}
    mate = agent("alice", "working")
    shown = _shown([agent(LEAD, "unknown", **person), mate], capsys)
    assert [line.split()[0] for line in shown[2:]] == ["alice"]
    shown = _shown([agent(LEAD, "unknown", **{**person, "unread": 2}), mate], capsys)
    assert [line.split()[0] for line in shown[2:]] == ["you", "alice"]
    assert "unknown" not in shown[2]


def test_what_no_agent_used_takes_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripted teams ask no model: nothing may look as if one had been paid."""
    views = [agent("alice", usage=Usage.new(turns=3)), agent("bob", usage=Usage.new())]
    shown = _shown(views, capsys)
    assert shown[0].split() == ["agent", "state", "unread", "doing"]
    assert "$" not in "".join(shown)

    AgentViews(Page(json=False), reader=LEAD).agents(views, snapshot(views))
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[7:10] for row in rows] == [["3", "0", "-"], ["0", "0", "-"]]


def test_who_was_stopped_since_the_goal_is_reached_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over = agent("alice", "stopped", end="stopped", cause=THE_RUN_IS_OVER)
    other = agent("bob", "stopped", end="stopped", cause="team-lead stopped it")
    views = [agent(LEAD, "stopped", end="finished"), over, other]
    lines = _shown(views, capsys, result=Finished.new(by=LEAD, summary="-", at_ms=1))
    states = [line.split()[:2] for line in lines if line.split()[0] in (LEAD, "alice", "bob")]
    assert states == [[LEAD, "finished"], ["alice", "done"], ["bob", "stopped"]]
    assert THE_RUN_IS_OVER not in "".join(lines)

    # A run can be over with nothing reached.
    assert words.states_of(views, snapshot(views, some_tasks()))["alice"] == "stopped"


def test_hostile_text_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    views = [agent("a", "working", tool=EVIL, detail=EVIL, tasks=("1",), actions=(EVIL,))]
    shown = "\n".join(_shown(views, capsys))

    assert not set(shown) & set("\x1b\x07\x9b\u202e")
    assert "[bold]x[/bold]" in shown


@each_row(
    ("count", "shown"),
    [
        (0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (99_940, "99.9k"),
        (99_960, "100k"), (999_499, "999k"), (999_500, "1.0M"), (5_250_000_000, "5.2G"),
    ],
)  # fmt: skip
def test_tokens_are_short(count: int, shown: str) -> None:
    assert words.tokens(Usage.new(input_tokens=count)) == shown


def test_a_price_that_is_not_known_is_never_called_nothing() -> None:
    assert words.money(Usage.new()) == "$0.00"
    assert words.money(Usage.new(cost_usd=0.0213)) == "$0.021"
    assert words.money(Usage.new(cost_usd=12.5)) == "$12.50"
    assert words.money(Usage.new(cost_usd=0.5, unpriced=1)) == "$0.500+?"
    assert words.money(Usage.new(unpriced=1)) == "?"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0s"), (59, "59s"), (92, "1m 32s"), (7500, "2h 05m")]
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert words.duration(seconds) == shown


def test_plain_columns_stay_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """R-6.1: one command says who, state, since when, task, actions, cost, what waits."""
    views = some_agents()
    AgentViews(Page(json=False), reader=LEAD).agents(views, snapshot(views, some_tasks()))
    head, *rows = capsys.readouterr().out.splitlines()

    assert head.split() == [
        "NAME", "STATE", "SINCE", "DRIVER", "BACKEND", "TASK", "UNREAD", "TURNS", "TOKENS", "COST",
        "DOING",
    ]  # fmt: skip
    assert rows[1].split()[:10] == [
        "alice", "working", "3s", "native", "subprocess", "2", "2", "3", "12555", "$0.021",
    ]  # fmt: skip
    assert rows[1].endswith("#2 Write the parser with precedence and unary minus: Bash pytest"
                            " -q tests/test_parser.py -k precedence")  # fmt: skip


def _request(to: str) -> Request:
    return Request.new(
        id="plan-1", kind="plan", sender="bob", to=to, state="pending", created_ms=NOW_MS - 5000,
        subject={"plan": "First the lexer"},
    )  # fmt: skip


def test_what_waits_for_the_reader_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    views = some_agents()
    team = snapshot(views, pending=[_request(LEAD), _request("alice")])
    AgentViews(Page(json=False), reader=LEAD).agents(views, team)
    shown = capsys.readouterr().out
    assert shown.count("bob waits for you: plan: First the lexer") == 1
    assert shown.endswith("Answer: bullpen approve plan-1\n")

    AgentViews(Page(json=True), reader=LEAD).agents(views, team)
    assert len(json.loads(capsys.readouterr().out)["waiting"]) == 1


def test_a_team_without_agents_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    views = [agent(LEAD, "unknown", driver=None, backend=None, since_ms=None)]
    AgentViews(Page(json=False), reader=LEAD).agents(views, snapshot(views))

    assert "bullpen spawn alice" in capsys.readouterr().out


def _spawned(*, fresh: bool = True, backend: str = "subprocess") -> Spawned:
    place = ProcessRecord.new(backend=backend, host=host_name(), pid=7, pane="%3")
    return Spawned("alice", fresh, backend, "native", place)


def test_a_start_names_driver_backend_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    """R-9.3: the chosen backend is reported."""
    show = AgentViews(Page(json=False), reader=LEAD)
    show.spawned(_spawned(), which="-t calc")
    shown = capsys.readouterr().out
    assert "Started alice (native driver, subprocess backend, pid 7)." in shown
    assert "bullpen logs alice -f -t calc" in shown
    assert "bullpen stop alice -t calc" in shown
    assert "attach" not in shown

    show.spawned(_spawned(backend="tmux"), which="-t calc")
    shown = capsys.readouterr().out
    assert "tmux backend, pane %3, pid 7" in shown
    assert "bullpen attach alice -t calc" in shown


def test_a_start_that_was_none_says_so() -> None:
    assert "nothing new was started" in spawned_line(_spawned(fresh=False))


def test_a_stop_says_whether_there_was_anything_to_stop() -> None:
    assert stopped_line(Stopped("a", True, "stopped")) == "Stopped a."
    assert stopped_line(Stopped("a", True, "finished")) == "a agreed to end, and has ended."
    assert stopped_line(Stopped("a", True, "failed")) == "a ended: failed."
    assert stopped_line(Stopped("a", False, "failed")) == "a was not running (failed)."


def test_how_full_a_context_is_has_a_column_only_where_somebody_knows_it() -> None:
    known = [agent("ann", context=0.417), agent("ben")]
    nobody = [agent("ann"), agent("ben")]
    for views, expected in ((known, ["42%", ""]), (nobody, None)):
        table = rows(views, snapshot(views))
        assert [len(row) for row in table] == [len(COLUMNS) + (expected is not None)] * 2
        if expected is not None:
            assert [row[-2] for row in table] == expected
