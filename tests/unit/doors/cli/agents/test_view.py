"""Agents, tasks and whole pictures of a team as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from rich.text import Text

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
from bullpen.doors.cli.output import board
from bullpen.doors.cli.output.board import LineWriter
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.run_screen import RunScene, picture, share
from bullpen.protocol import names
from bullpen.protocol.agent import ProcessRecord, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Finished, Member, TeamConfig, TeamFacts
from bullpen.runs.watch.outcome import Progress
from bullpen.store.contract import Problem
from bullpen.team.snapshot import MemberView, Snapshot
from bullpen.view import agent_words as words
from bullpen.view.news import THE_RUN_IS_OVER

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


def _plain(lines: Sequence[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


def _agents(views: list[AgentView], width: int, room: int | None = None) -> list[Text]:
    team = snapshot(views, some_tasks())
    return board.agent_lines(LineWriter(width), views, team, now_ms=NOW_MS, room=room)


def test_a_row_says_who_does_what_since_when_and_at_what_cost() -> None:
    assert _plain(_agents(some_agents(), 80)).splitlines() == [
        "  agent         state         doing                        tokens    cost unread",
        "◐ team-lead     waiting   12s waits: the plan of bob        12.6k  $0.021",
        "● alice         working    3s #2 › Bash pytest -q tests/…   12.6k  $0.021      2",
        "● bob           working    1m #3 Write the README           12.6k  $0.021",
        "○ carol         idle       3m last: SendMessage team-lead   12.6k  $0.021",
        "✗ dave          failed     3s The model API said no: 401        0       ?",
        "✓ erin-with-a-… finished   6m                               12.6k  $0.021",
    ]


def test_a_wide_terminal_also_shows_the_driver_and_the_backend() -> None:
    wide = _plain(_agents(some_agents(), 140))
    assert "native/subprocess" in wide
    assert "driver" in wide.splitlines()[0].split()
    assert "native/subprocess" not in _plain(_agents(some_agents(), 80))


def test_what_no_agent_used_takes_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripted teams ask no model: nothing may look as if one had been paid."""
    views = [agent("alice", usage=Usage.new(turns=3)), agent("bob", usage=Usage.new())]
    assert _plain(_agents(views, 80)).splitlines()[0].split() == [
        "agent",
        "state",
        "doing",
        "unread",
    ]
    assert "$" not in _plain(_picture(_scene(views, some_tasks()), 80, 24))

    AgentViews(Page(json=False), reader=LEAD).agents(views, snapshot(views))
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[7:10] for row in rows] == [["3", "0", "-"], ["0", "0", "-"]]

    # The columns stay where they are when who used something is not shown for want of room.
    views += [agent(f"c{n}", "working", usage=Usage.new()) for n in range(5)]
    views.append(agent("last", "stopped"))
    assert "cost" in _plain(_agents(views, 80, room=4))


def test_an_agent_that_uses_no_tool_shows_what_it_did_last() -> None:
    busy = agent("alice", "working", actions=("TaskList", "Edit parser.py"))
    assert "last: Edit parser.py" in _plain(_agents([busy], 80))
    assert "thinking" in _plain(_agents([agent("bob", "working")], 80))
    styles = {str(span.style) for span in _agents([busy], 80)[1].spans}
    assert "dim" in styles


def test_who_was_stopped_since_the_goal_is_reached_is_done() -> None:
    over = agent("alice", "stopped", end="stopped", cause=THE_RUN_IS_OVER)
    other = agent("bob", "stopped", end="stopped", cause="team-lead stopped it")
    views = [agent(LEAD, "stopped", end="finished"), over, other]
    reached = snapshot(views, some_tasks(), result=Finished.new(by=LEAD, summary="-", at_ms=1))
    lines = board.agent_lines(LineWriter(80), views, reached, now_ms=NOW_MS, room=None)
    assert [line.plain.split()[:3] for line in lines[1:]] == [
        ["✓", "team-lead", "finished"],
        ["✓", "alice", "done"],
        ["■", "bob", "stopped"],
    ]
    assert THE_RUN_IS_OVER not in _plain(lines)

    # A run can be over with nothing reached.
    assert words.states_of(views, snapshot(views, some_tasks()))["alice"] == "stopped"


@pytest.mark.parametrize("width", [1, 7, 20, 40, 79, 80, 110, 140, 300])
def test_every_line_has_exactly_the_width_of_the_terminal(width: int) -> None:
    odd = agent("日本", "working", tool="Bash", detail="日本語" * 50, tasks=("1",), unread=None)
    writer = LineWriter(width)
    tasks = [*some_tasks(), task(100_000, "日本語 👩‍🚀 é" * 20, owner="x" * 50)]
    lines = [
        *_agents([*some_agents(), odd], width),
        *board.task_lines(writer, tasks, room=None),
        *board.task_lines(writer, tasks, room=3),
        board.progress_line(writer, tasks),
        writer.title("News", "日本語" * 50),
        writer.ends(Text("left" * 40), Text("right")),
    ]
    assert {line.cell_len for line in lines} == {width}


def test_with_too_little_room_those_to_look_at_are_shown_and_the_rest_is_counted() -> None:
    idle = [agent(f"idle-{number}") for number in range(20)]
    broken = agent("broken", "failed", cause="no key")
    shown = _plain(_agents([*idle, broken], 80, room=5)).splitlines()

    assert len(shown) == 5
    assert any("broken" in line for line in shown)
    assert shown[-1] == "  18 more: 18 idle"


def test_open_tasks_go_before_completed_ones_when_there_is_too_little_room() -> None:
    tasks = [task(number, f"Done {number}", "completed") for number in range(1, 30)]
    tasks.append(task(30, "Still open", "in_progress", owner="bob"))
    shown = _plain(board.task_lines(LineWriter(60), tasks, room=3)).splitlines()

    assert len(shown) == 3
    assert any("Still open" in line for line in shown)
    assert shown[-1] == "  28 more: 28 done"


def test_a_task_line_says_whose_it_is_or_what_it_waits_for() -> None:
    lines = _plain(board.task_lines(LineWriter(60), some_tasks(), room=None)).splitlines()

    assert lines[0].startswith("✓ 1 Write the lexer")
    assert lines[0].endswith("carol")
    assert lines[3].startswith("· 4 Test both together")
    assert lines[3].endswith("after #2, #3")
    assert lines[4] == "○ 5 Command line entry point"


def test_states_can_be_told_apart_without_colour_and_without_unicode() -> None:
    states = ["starting", "working", "waiting", "idle", "failed", "stopped", "unknown"]
    for encoding in ("utf-8", "ascii"):
        writer = LineWriter(80, encoding=encoding)
        views = [agent(f"a{number}", state) for number, state in enumerate(states)]
        lines = board.agent_lines(writer, views, snapshot(views), now_ms=NOW_MS, room=None)[1:]
        glyphs = {line.plain[0] for line in lines}
        assert len(glyphs) == len(states)
        assert all(state in line.plain for state, line in zip(states, lines, strict=True))
        if encoding == "ascii":
            progress = board.progress_line(writer, some_tasks()).plain
            assert "".join(line.plain for line in lines).isascii()
            assert progress.isascii()


def test_names_have_the_colours_of_the_members() -> None:
    styles = [str(span.style) for span in _agents(some_agents(), 80)[2].spans]
    assert "blue" in styles


def test_hostile_text_cannot_steer_the_terminal() -> None:
    views = [agent("a", "working", tool=EVIL, detail=EVIL, tasks=("1",), actions=(EVIL,))]
    tasks = [task(1, EVIL, "in_progress", owner=EVIL)]
    lines = board.agent_lines(
        LineWriter(200), views, snapshot(views, tasks), now_ms=NOW_MS, room=None
    )
    shown = _plain([*lines, *board.task_lines(LineWriter(200), tasks, room=None)])

    assert not set(shown) & set("\x1b\x07\x9b\u202e")
    assert "[bold]x[/bold]" in shown


@pytest.mark.parametrize(
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


def test_an_agent_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    views = [agent("alice", "working", tool="Bash", actions=("a", "b", "c", "d"), tasks=("2",))]
    AgentViews(Page(json=True), reader=LEAD).agents(views, snapshot(views))
    (shown,) = json.loads(capsys.readouterr().out)["agents"]

    assert shown["name"] == "alice"
    assert (shown["state"], shown["sinceMs"]) == ("working", NOW_MS - 3000)
    assert shown["actions"] == ["b", "c", "d"]
    assert shown["usage"]["inputTokens"] == 12_345
    assert shown["place"]["pid"] == 4242


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


def _scene(views: list[AgentView], tasks: list[Task], *, news: int = 8, **facts: Any) -> RunScene:
    progress = Progress("calc", snapshot(views, tasks, **facts), views)
    return RunScene(
        "Build a calculator", progress, [("05:00:00", f"news {number}") for number in range(news)]
    )


def _picture(scene: RunScene, width: int, height: int, **facts: Any) -> list[Text]:
    return picture(scene, width=width, height=height, elapsed_s=92, now_ms=NOW_MS, **facts)


@pytest.mark.parametrize("size", [(80, 24), (140, 40), (40, 12), (20, 5), (300, 100), (1, 1)])
@pytest.mark.parametrize("many", [0, 1, 40])
def test_a_picture_fills_the_terminal_exactly(size: tuple[int, int], many: int) -> None:
    views = [agent(f"worker-{number}", "working", tasks=("1",)) for number in range(many)]
    tasks = [task(number, f"Part {number}") for number in range(1, many + 1)]
    for scene in (_scene(views, tasks, news=many), RunScene("Not begun yet")):
        lines = _picture(scene, *size)
        assert len(lines) == size[1]
        assert {line.cell_len for line in lines} == {size[0]}


def test_a_picture_shows_goal_time_cost_agents_tasks_and_news() -> None:
    shown = _plain(_picture(_scene(some_agents(), some_tasks()), 80, 24))
    head = shown.splitlines()[0]

    assert head.startswith("bullpen  calc")
    assert head.endswith("1m 32s   62.8k tokens   $0.106+?")
    for text in (
        "Build a calculator", "alice", "dave", "1 of 5 done, 2 in progress, 1 ready, 1 blocked",
        "Write the README", "news 7", "Ctrl-C stops",
    ):  # fmt: skip
        assert text in shown


def test_news_and_the_last_line_stand_apart_if_there_is_room() -> None:
    for size in ((80, 24), (140, 40)):
        lines = _plain(_picture(_scene(some_agents(), some_tasks(), news=50), *size)).splitlines()
        title = next(at for at, line in enumerate(lines) if "News" in line)
        assert lines[title - 1] == lines[-2] == ""
    lines = _plain(_picture(_scene(some_agents(), some_tasks(), news=50), 80, 16)).splitlines()
    assert lines[-2] != ""


def test_many_agents_leave_room_for_tasks_and_news() -> None:
    views = [agent(f"worker-{number}", "working") for number in range(40)]
    tasks = [task(number, f"Part {number}") for number in range(1, 41)]
    for size in ((80, 24), (140, 40)):
        shown = _plain(_picture(_scene(views, tasks), *size))
        assert "more: " in shown
        assert "Part 1" in shown
        assert "news 7" in shown


def test_on_a_wide_terminal_tasks_and_news_stand_beside_each_other() -> None:
    lines = _plain(_picture(_scene(some_agents(), some_tasks()), 140, 40)).splitlines()
    assert any("Tasks" in line and "News" in line for line in lines)


def test_the_newest_news_is_always_shown() -> None:
    for height in range(12, 60):
        shown = _plain(_picture(_scene(some_agents(), some_tasks(), news=100), 80, height))
        assert ("news 99" in shown) == ("News" in shown), height
    assert "news 99" in shown


def test_what_waits_for_somebody_and_what_is_damaged_stands_on_top() -> None:
    damage = [Problem(f"task {number}", "not JSON") for number in range(5)]
    scene = _scene(some_agents(), some_tasks(), pending=[_request(LEAD)], problems=damage)
    lines = _plain(_picture(scene, 80, 24)).splitlines()

    assert lines[3].split("  ")[0] == "! bob waits for you: plan: First the lexer"
    assert lines[3].endswith("  bullpen approve plan-1")
    assert lines[4] == "! cannot read task 0: not JSON"
    assert lines[5] == "! and 4 more"


def test_a_picture_says_that_the_agents_are_being_stopped() -> None:
    scene = _scene(some_agents(), some_tasks())
    scene.stopping = True
    assert "Stopping the agents" in _plain(_picture(scene, 80, 24)).splitlines()[-1]


@pytest.mark.parametrize("room", range(30))
def test_rows_are_shared_so_that_nobody_is_left_out(room: int) -> None:
    given = share(room, (50, 50, 50))
    assert sum(given) <= max(room, 9)
    assert min(given) >= 3
    assert share(30, (2, 1, 4)) == [2, 1, 4]


def test_how_full_a_context_is_has_a_column_only_where_somebody_knows_it() -> None:
    known = [agent("ann", context=0.417), agent("ben")]
    nobody = [agent("ann"), agent("ben")]
    for views, expected in ((known, ["42%", ""]), (nobody, None)):
        table = rows(views, snapshot(views))
        assert [len(row) for row in table] == [len(COLUMNS) + (expected is not None)] * 2
        if expected is not None:
            assert [row[-2] for row in table] == expected
