"""What reaches a terminal, a pipe and a program, and what must never reach a terminal."""

from __future__ import annotations

import gc
import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from bullpen.doors.cli.command import _collect_garbage_again
from bullpen.doors.cli.output import page as page_module
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.output.screen import Screen, column_widths
from bullpen.doors.cli.output.text import say
from bullpen.doors.cli.output.watch_run import Watcher
from bullpen.protocol import json_text as jsontext
from bullpen.protocol.agent import Usage
from bullpen.protocol.task import Task
from bullpen.runs.watch.outcome import Outcome
from bullpen.store.memory import MemoryStore
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks.operations import Listing
from bullpen.team.team import Teams
from bullpen.view.text import Cell, json_text, one_line, visible

EVIL = "\x1b]0;owned\x07\x1b[2J[bold]x[/bold] [/red]\u202e\x9b31m\r\nnext"


def test_everything_that_could_steer_a_terminal_becomes_visible() -> None:
    assert visible("\x1b[31m\x07\x9b\x7f\r") == "\\x1b[31m\\x07\\x9b\\x7f\\x0d"
    assert visible("\u202e\u2066\u2028\ud800") == "\\u202e\\u2066\\u2028\\ud800"


def test_harmless_text_stays_as_it_is() -> None:
    assert visible("naïve ☃ 👩‍🚀 שלום\n\tx\r\ny") == "naïve ☃ 👩‍🚀 שלום\n\tx\ny"
    assert one_line("a\tb\nc \n") == "a b c"


def test_columns_are_aligned_and_never_empty(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page(json=False)
    page.table(("id", "waits for", "text"), [("1", "", "a\nb"), ("22", Cell("日本", "bad"), " ")])

    assert capsys.readouterr().out.splitlines() == [
        "ID  WAITS-FOR  TEXT",
        "1   -          a b",
        "22  日本       -",
    ]


def test_only_a_column_with_wide_characters_is_measured_by_character(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    width = page_module._width

    def noted(text: str) -> int:
        measured.append(text)
        return width(text)

    monkeypatch.setattr(page_module, "_width", noted)
    Page(json=False).table(("id", "owner", "text"), [("1", "bob", "é"), ("10", "日本", "b")])

    assert capsys.readouterr().out.splitlines() == [
        "ID  OWNER  TEXT",
        "1   bob    é",
        "10  日本   b",
    ]
    assert set(measured) == {"OWNER", "bob", "日本"}


def test_a_command_looks_for_garbage_seldom() -> None:
    before = gc.get_threshold()
    gc.disable()
    try:
        _collect_garbage_again()
        assert gc.isenabled()
        assert gc.get_threshold()[0] >= 10_000
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        gc.enable()


def test_saying_something_without_standard_error_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("lost")

    assert capsys.readouterr().out == ""


def test_hostile_text_is_neutralised_everywhere_without_a_terminal(
    run: Callable[..., Any], team: str
) -> None:
    run("task", "add", EVIL, "--description", EVIL)
    run("send", "alice", EVIL, "--summary", EVIL)

    for words in (
        ["task", "list"], ["task", "show", "4"], ["task", "graph"], ["task", "graph", "--mermaid"],
        ["inbox", "alice"], ["events"], ["team", "show"],
    ):  # fmt: skip
        shown = run(*words).stdout
        assert not set(shown) & set("\x1b\x07\x9b\u202e\r"), words


def test_a_bare_file_that_takes_a_part_only_gets_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Grudging(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(data[:3])

    grudging = Grudging()
    stdout = io.TextIOWrapper(grudging, encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stdout)
    Page(json=True).json_line("task/1", {"all": "of it"})

    assert grudging.getvalue() == b'{"schema":"bullpen/task/1","all":"of it"}\n'
    stdout.detach()


async def _pending_snapshot() -> Snapshot:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("bob", by="team-lead")
        await team.approvals.ask_plan("Step one", by="bob")
        await team.approvals.ask_permission("Bash", {"c": "ls"}, by="bob", description="list")
        await team.approvals.ask_shutdown("bob", by="team-lead", reason="finished")
        return await team.snapshot()


def test_what_waits_for_an_answer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    RecordViews(Page(json=False)).snapshot(anyio.run(_pending_snapshot))

    shown = capsys.readouterr().out
    assert "waiting for an answer:  3" in shown
    assert "Step one" in shown
    assert "Bash: list" in shown
    assert "finished" in shown


def test_json_holds_steering_characters_as_escapes() -> None:
    value = {"text": "a\u009b31m \u202eevil \x1b[0m é\n"}
    text = json_text(jsontext.dumps(value))
    assert json.loads(text) == value
    assert not any(bad in text.decode() for bad in "\u009b\u202e\x1b")
    assert "é" in text.decode()


def test_a_table_breaks_no_word_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    columns = (
        *("member", "driver", "state", "done", "turns", "tokens", "cost"),
        *("working", "waiting", "restarts"),
    )
    row = ["team-lead", "scripted", "in progress", "12", "140", "12.4k", "$0.4231", "12m 30s"]

    Screen().table(columns, [[*row, "1h 2m", "0"]])
    Screen().table(("team", "description"), [["goal-20261119-044045", "Write the parser " * 9]])

    shown = capsys.readouterr().out
    words = {*shown.split()}
    assert {*columns, "team-lead", "scripted", "progress", "$0.4231", "restarts"} <= words
    assert {"goal-20261119-044045", "description"} <= words
    assert max(len(line.rstrip()) for line in shown.split("\n")) <= 80


def test_only_what_is_longer_than_the_terminal_is_broken() -> None:
    gap, widths = column_widths([["name", "alice"], ["path", "/" + "x" * 200]], 60)

    assert widths[0] == len("alice")
    assert sum(widths) + gap == 60
    assert column_widths([["name", "alice"], ["state", "idle"]], 60) == (3, [5, 5])


def test_what_needs_you_stays_indented_where_its_line_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    needs = ["ann failed: " + "no key " * 20]
    account: Any = SimpleNamespace(needs=needs, worktrees=[], changed=None)
    outcome = Outcome(1, "failed", "", "shop", Usage.new(), {}, account=account)

    Watcher(Screen(), "Ship it").ended(outcome, next_steps=[])

    shown = capsys.readouterr().out.rstrip().split("\n")
    told = shown[next(at for at, line in enumerate(shown) if "needs you" in line) :]
    assert len(told) > 2
    assert all(line.startswith("  ") for line in told)


def test_the_graph_on_a_terminal_says_what_its_mark_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = Task.new(id="1", subject="Build", description="", status="pending", blocks=["2"])
    then = Task.new(id="2", subject="Ship", description="", status="pending", blocked_by=["1"])

    RecordViews(Screen()).graph(Listing([first, then], ()), mermaid=False)

    assert "* marks the longest chain" in capsys.readouterr().out
