"""Notes on every screen: the plan first, rendered as text of others and never as markup."""

from __future__ import annotations

from bullpen.doors.report.markdown import markdown_page
from bullpen.doors.report.page import html_page
from bullpen.doors.report.run_facts import run_of
from bullpen.doors.tui.panes.notes import NotesPane
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.doors.web.pieces import PageView, draw
from bullpen.doors.web.render_piece import PieceRenderer
from bullpen.protocol.changes import Event, PutNote
from bullpen.store.record_checks import creation_of
from bullpen.testing.sample_records import config, note
from bullpen.view.scene import scene_of
from bullpen.view.story import Story, story_of

TIME = "2026-01-01T00:00:00.000Z"
EVIL = "# Plan\n\n<script>alert(1)</script> [x](javascript:alert(1))\n"


def events(*texts: tuple[str, str]) -> list[Event]:
    team = config()
    begin = Event(1, TIME, "team-lead", "team.create", tuple(creation_of(team)))
    written = [
        Event(number, TIME, "ann", "note.write", (PutNote(note(name, text)),))
        for number, (name, text) in enumerate(texts, 2)
    ]
    return [begin, *written]


def page(story: Story) -> str:
    scene = scene_of(story, now_ms=story.at_ms)
    picture = draw("notes", PieceRenderer(), PageView(scene, story, act=False, query={}))
    return "".join([*picture.lists["notes"].values(), picture.singles["no-notes"]])


def test_the_browser_shows_notes_as_plain_markdown_the_plan_first() -> None:
    shown = page(story_of(events(("api", "GET /"), ("plan", EVIL))))
    assert shown.index("<h2>plan</h2>") < shown.index("<h2>api</h2>")
    assert "version 1 by ann" in shown
    assert "<script" not in shown and "href=" not in shown
    assert "&lt;script&gt;" in shown


def test_a_team_without_notes_says_so_in_the_browser() -> None:
    assert "no notes yet" in page(story_of(events()))
    deleted = events(("old", ""))
    assert "no notes yet" in page(story_of(deleted))


def test_the_terminal_lists_notes_and_finds_words_in_their_texts() -> None:
    story = story_of(events(("api", "# Orders\nGET /orders"), ("plan", EVIL)))
    pane = NotesPane(TerminalText())
    look = TeamLook(scene_of(story, now_ms=0), story, 0)
    put: list[int] = []
    pane._lines.put = lambda count, _draw, **_: put.append(count)  # type: ignore[method-assign]
    pane.show(look)
    assert [pane._row(number, 90).plain.split()[0] for number in range(2)] == ["plan", "api"]
    assert pane._row(1, 90).plain.rstrip().endswith("Orders")
    pane.words = "get"
    pane.show(look)
    assert put == [2, 1] and pane._row(0, 90).plain.startswith("api")


def test_the_report_has_the_notes_and_none_of_their_markup() -> None:
    run = run_of(events(("plan", EVIL)), now_ms=0)
    html, text = html_page(run), markdown_page(run)
    assert '<section id="notes">' in html and "<h3>plan</h3>" in html
    assert "<script>" not in html and "<script>" not in text
    assert "## Notes" in text and "version 1 by ann" in text
    assert "Notes" not in markdown_page(run_of(events(), now_ms=0))


def test_the_log_tells_who_wrote_which_note() -> None:
    told = [item.text for item in story_of(events(("plan", EVIL))).told]
    assert told[-1] == "ann wrote note plan (version 1)"
