"""The parts of a screen that need none: texts in their room, columns, the drawn graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from bullpen.doors.actions.changes import _Look
from bullpen.doors.tui.help import help_screen
from bullpen.doors.tui.member.member_work import ChangesView
from bullpen.doors.tui.panes.graph_lines import SHOWN_MAX, drawn
from bullpen.doors.tui.panes.pane import SearchFilter, among
from bullpen.doors.tui.picker import _about
from bullpen.doors.tui.prompt.commands import COMMANDS
from bullpen.doors.tui.prompt.completion_list import CompletionList
from bullpen.doors.tui.team.lists import TaskList
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.team.team import TeamSummary
from bullpen.view.cards import TaskCard
from bullpen.view.task_state import TASK_STATES, TaskState
from support.rows import each_row


def task(number: int, *after: int, state: TaskState = "blocked") -> TaskCard:
    """A task that waits for others."""
    return TaskCard(
        id=str(number), subject=f"Do {number}", description="", state=state, owner=None,
        since_ms=0, after=tuple(map(str, after)), waits_for=(),
    )  # fmt: skip


@each_row("width", [1, 2, 7, 40])
@each_row("text", ["", "short", "x" * 99, "漢字" * 30, "e\u0301" * 50, "\x1b[2J" * 9])
def test_a_text_never_takes_more_room_than_it_has(text: str, width: int) -> None:
    for terminal in (TerminalText(), TerminalText(plain=True)):
        assert cell_len(terminal.fit(text, width)) <= width
        assert terminal.column(text, width).cell_len == width


def test_a_wrapped_text_loses_nothing() -> None:
    text = "a word and " + "x" * 50 + "  two  spaces\nand another line"
    lines = [line.plain for line in TerminalText().wrap(text, 20)]
    assert all(cell_len(line) <= 20 for line in lines)
    assert "".join(lines) == text.replace("\n", "")


def test_a_style_of_somebody_else_is_none() -> None:
    for style in ("blink", "conceal", "red on red", "link file:///etc/passwd", "[red]"):
        assert all(not span.style for span in styled("text", style).spans)


def test_a_line_of_the_graph_leads_from_each_task_to_the_one_that_waits() -> None:
    lines, _ = drawn([task(1), task(2, 1), task(3), task(4, 2, 3)], TerminalText(plain=True), 120)
    picture = [line.plain for line in lines[1:]]
    assert picture[0].count(">") == 2
    assert "#1" in picture[0]
    assert "#4" in picture[0]
    # The third runs below its own row, past the column of the second, and up to the fourth.
    assert picture[2].rstrip().endswith("|")
    assert picture[3].strip().startswith("+")
    assert picture[3].strip().endswith("+")


def test_tasks_that_wait_in_a_circle_are_drawn_all_the_same() -> None:
    lines, _ = drawn([task(1, 2), task(2, 1)], TerminalText(), 80)
    text = "\n".join(line.plain for line in lines)
    assert "#1" in text
    assert "#2" in text


def test_of_very_many_tasks_those_that_are_done_are_left_out_and_that_is_said() -> None:
    done = [task(number, state="done") for number in range(SHOWN_MAX)]
    lines, _ = drawn([*done, task(9999)], TerminalText(), 80)
    assert f"{SHOWN_MAX} finished tasks are not shown." in lines[1].plain
    assert len(lines) == 3


def test_a_search_goes_on_where_it_was() -> None:
    looked: list[str] = []

    def wanted(text: str) -> bool:
        looked.append(text)
        return among("a", text)

    source = ["Anna", "bob"]
    search: SearchFilter[str] = SearchFilter()
    search.begin(wanted)
    assert search.look(source) == 1
    source.append("carla")
    assert search.look(source) == 2
    assert search[1] == "carla"
    assert looked == ["Anna", "bob", "carla"]


def test_a_list_of_commands_says_how_many_more_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    screen = SimpleNamespace(size=SimpleNamespace(width=80, height=24))
    monkeypatch.setattr(CompletionList, "app", screen)
    monkeypatch.setattr(CompletionList, "update", lambda _, text: shown.append(text.plain))
    offered = CompletionList(TerminalText())

    offered.offer("/", ())
    lines = shown[-1].split("\n")
    assert len(lines) == 4
    assert lines[-1].strip() == f"{len(COMMANDS) - 3} more: press Down, or type on"

    for _ in COMMANDS[1:]:
        offered.move(1)
    assert COMMANDS[-1].usage in shown[-1]

    offered.offer("/sp", ())
    assert "more" not in shown[-1]


def test_the_empty_list_of_tasks_says_how_to_add_one_in_a_narrow_column() -> None:
    tasks = TaskList(TerminalText())
    tasks._look = Any  # type: ignore[assignment]  # There is a team, and it has no tasks.

    assert tasks._row(0, 25).plain.strip() == "None yet: /task TEXT"


def test_a_team_to_choose_is_shown_with_its_folder_and_goal() -> None:
    team = TeamSummary("run-1", description="Mend the parser", created_at=0, cwd="/shop")
    assert _about(team).endswith("  /shop  Mend the parser")
    assert _about(None) == ""


def test_the_help_explains_every_mark_in_each_charset() -> None:
    for terminal in (TerminalText(), TerminalText(plain=True)):
        shown = "\n".join(text for text, _ in help_screen(terminal)._blocks)
        assert f"{terminal.glyph('queued')} in the merge queue" in shown
        for state in (*TASK_STATES, "working", "waiting", "idle", "stopped", "failed", "lead"):
            assert state == "unknown" or f"{terminal.glyph(state)} " in shown, state


def test_without_a_repository_nobody_is_told_that_there_are_no_changes() -> None:
    changes = _Look("alpha", "dan", None, "here").of_member([])
    view = SimpleNamespace(_tasks=())
    shown = [text for text, _ in ChangesView._shown(view, changes, None)]  # type: ignore[arg-type]
    assert "Changes cannot be shown: no git repository." in shown
    assert "No changes." not in shown
