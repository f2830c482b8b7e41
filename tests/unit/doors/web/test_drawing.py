"""Drawings and replay: what members wrote is text in them, and the past is what it was."""

from __future__ import annotations

import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from bullpen.doors.web.render_piece import PieceRenderer, Pieces, SentPieces
from bullpen.doors.web.replay import Replay
from bullpen.view.cards import TaskCard
from bullpen.view.diff import edit_diff
from bullpen.view.drawings.graph import graph_of
from bullpen.view.drawings.style import STYLE
from bullpen.view.drawings.svg import gantt_svg, graph_svg, spend_svg
from bullpen.view.scene import scene_of
from bullpen.view.story import Span, SpendingOverTime, Story, story_of
from support.doors.web_stage import HOSTILE, people
from support.rows import each_row

pytestmark = pytest.mark.anyio


def card(task_id: str, subject: str, *after: str, owner: str | None = None) -> TaskCard:
    return TaskCard(
        id=task_id,
        subject=subject,
        description="",
        state="ready",
        owner=owner,
        since_ms=0,
        after=after,
        waits_for=after,
    )


def texts(svg: str) -> str:
    return "".join(ElementTree.fromstring(svg).itertext())


@each_row("text", HOSTILE)
def test_a_drawing_is_sound_xml_without_styles_whatever_members_wrote(text: str) -> None:
    story = Story()
    story.began_ms = 0
    story.spans = {text: [Span("working", 0, 500), Span("idle", 500)]}
    graph = graph_of([card("1", text, owner=text), card("2", text, "1")])
    for svg in (
        graph_svg(graph, links=lambda task: f"/task?id={task}&x='\""),
        gantt_svg(story, names=[text], now_ms=1000),
        spend_svg([SpendingOverTime(0, 0.0, 10)], now_ms=1000),
    ):
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label")
        names = {each.tag.rpartition("}")[2] for each in root.iter()}
        assert names <= {"svg", "g", "a", "rect", "path", "text", "title"}
        attributes = {name for each in root.iter() for name in each.keys()}  # noqa: SIM118
        assert not {name for name in attributes if name.startswith(("on", "style"))}
        classes = {name for each in root.iter() for name in (each.get("class") or "").split()}
        assert all(re.fullmatch(r"[a-z_-]+", name) for name in classes)


def test_a_graph_shows_who_is_on_what_and_the_longest_chain() -> None:
    tasks = [card("1", "First", owner="ann"), card("2", "Then", "1"), card("3", "Aside")]
    svg = graph_svg(graph_of(tasks))
    assert "#1 First" in texts(svg)
    assert "ready · ann" in texts(svg)
    assert svg.count('class="node state-ready critical"') == 2
    assert svg.count('class="edge critical"') == 1
    assert "<a " not in svg


def test_a_gantt_has_a_lane_for_each_member_as_long_as_its_states_lasted() -> None:
    story = Story()
    story.began_ms = 0
    story.spans = {"ann": [Span("working", 0, 30_000), Span("idle", 30_000)], "bob": []}
    svg = gantt_svg(story, names=["ann", "bob"], now_ms=60_000)
    widths = re.findall(r'class="span state-(\w+)" x="[\d.]+" y="\d+" width="([\d.]+)"', svg)
    assert widths == [("working", "430.0"), ("idle", "430.0")]
    assert "bob" in texts(svg)


def test_ten_thousand_states_and_points_are_drawn_no_finer_than_can_be_seen() -> None:
    story = Story()
    story.began_ms = 0
    story.spans = {"ann": [Span("working", at, at + 1) for at in range(10_000)]}
    assert len(gantt_svg(story, names=["ann"], now_ms=10_000)) < 500_000
    points = [SpendingOverTime(at, at / 10, at) for at in range(10_000)]
    svg = spend_svg(points, now_ms=10_000)
    assert len(svg) < 50_000
    assert "$999.90" in svg


def test_spend_is_shown_in_tokens_if_no_price_is_known_and_nothing_as_nothing() -> None:
    assert "12.0k" in spend_svg([SpendingOverTime(0, 0.0, 12_000)], now_ms=1000)
    assert "No cost yet." in spend_svg([], now_ms=1000)


def test_every_class_that_a_state_has_is_in_the_style() -> None:
    for state in ("working", "waiting", "idle", "starting", "stopped", "failed", "lost"):
        assert f".state-{state}" in STYLE


async def test_any_moment_of_a_replay_is_the_team_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.doors.web.replay.APART", 5)
    work = tmp_path / "work"
    work.mkdir()
    async with open_app(settings_from({}, home=str(tmp_path / "home"))) as app:
        events = await (await people(app, cwd=work)).events()
    replay = Replay(events)
    replay.prepare()
    moments = [random.Random(8).randint(1, len(events)) for _ in range(60)]
    for at in (*moments, *range(1, len(events) + 1), *range(len(events), 0, -1)):
        scene, story = replay.at(at)
        alone = story_of(events[:at])
        assert scene == scene_of(alone, now_ms=alone.at_ms)
        assert (story.spans, story.said, story.spending) == (
            alone.spans, alone.said, alone.spending,
        )  # fmt: skip
    assert replay.at(10**9)[0].seq == len(events)


def test_a_browser_is_sent_no_more_than_what_changed() -> None:
    sent = SentPieces()
    first = sent.update(Pieces({"head": "a"}, {"list": {"1": "x", "2": "y"}}))
    assert first == {
        "set": {"head": "a", "1": "x", "2": "y"}, "gone": [], "order": {"list": ("1", "2")},
    }  # fmt: skip
    assert sent.update(Pieces({"head": "a"}, {"list": {"1": "x", "2": "y"}})) is None
    then = sent.update(Pieces({"head": "b"}, {"list": {"2": "y"}}))
    assert then == {"set": {"head": "b"}, "gone": ["1"], "order": {"list": ("2",)}}


def test_a_piece_is_drawn_again_only_if_it_shows_something_else() -> None:
    renderer = PieceRenderer()
    one = card("1", "First")
    drawn = renderer.piece("task_card", "task-1", (one,))
    assert renderer.piece("task_card", "task-1", (card("1", "First"),)) is drawn
    assert renderer.piece("task_card", "task-1", (card("1", "Second"),)) != drawn


def test_the_proof_of_a_session_comes_into_forms_when_they_are_sent() -> None:
    renderer = PieceRenderer()
    values = {"page": "overview", "team": "t", "notes": [], "now_ms": 0, "query": "", "back": "/"}
    values["waiting"] = 0
    texts = {"message": f"csrf-{'0' * 32}", "remedy": "None"}
    assert "s3cret" not in renderer.page("trouble.html", csrf="s3cret", **values, **texts)
    for act in (False, True):
        drawn = renderer.piece("file_diff", "form", (edit_diff("a", "x", "y"), "bob", "/"), act=act)
        assert "s3cret" not in drawn
        assert ('value="s3cret"' in renderer.signed(drawn, "s3cret")) is act
