"""The pages of one small run, to the letter. BULLPEN_REPORT_GOLDEN=write makes them again."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bullpen.doors.report.markdown import markdown_page
from bullpen.doors.report.page import html_page
from bullpen.doors.report.run_facts import run_of
from bullpen.doors.report.saved import saved_events
from bullpen.doors.report.tables import decisions
from bullpen.errors import Invalid
from bullpen.protocol import json_text
from support.doors.small_log import BEGAN_MS, small_log

GOLDEN = Path(__file__).parents[3] / "support/doors/report_golden"
LATER_MS = BEGAN_MS + 86_400_000


def is_golden(name: str, text: str) -> None:
    """Compare a page with the one that somebody has looked at."""
    path = GOLDEN / name
    if os.environ.get("BULLPEN_REPORT_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def without_drawings(page: str) -> str:
    """A page without its style sheet, and with the names of its drawings: others test those."""
    page = re.sub(
        r'<svg class="drawing drawing-(\w+)".*?</svg>', r"[drawing \1]", page, flags=re.DOTALL
    )
    return re.sub(r"<style>.*?</style>", "[style]", page, flags=re.DOTALL)


def test_a_saved_log_is_the_log() -> None:
    whole = {"events": [event.encode() for event in small_log()]}
    is_golden("events.json", json_text.dumps(whole).decode())
    assert saved_events(GOLDEN / "events.json") == small_log()


def test_a_log_that_was_saved_line_by_line_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "followed.jsonl"
    lines = [json_text.dumps_line(event.encode()) for event in small_log()]
    path.write_bytes(b"\n".join(lines) + b"\n\n")
    assert saved_events(path) == small_log()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "There are no events"),
        (b"not json\n", "Line 1 of .* is not JSON"),
        (b'{"seq": 1}\n', "Event 1 cannot be read"),
        (b"[1]\n", "Event 1 cannot be read: it is not a JSON object"),
    ],
)
def test_what_is_no_log_is_refused_with_what_is_wrong(
    tmp_path: Path, data: bytes, why: str
) -> None:
    path = tmp_path / "saved"
    path.write_bytes(data)
    with pytest.raises(Invalid, match=why):
        saved_events(path)


def test_a_log_that_does_not_begin_at_its_beginning_is_refused() -> None:
    with pytest.raises(Invalid, match="The log of the team is not complete"):
        run_of(small_log()[3:], now_ms=LATER_MS)
    with pytest.raises(Invalid, match="The log of the team is not complete"):
        run_of([], now_ms=LATER_MS)


def test_the_page_for_browsers_is_as_it_was_looked_at() -> None:
    page = html_page(run_of(small_log(), now_ms=LATER_MS))
    is_golden("small.html", without_drawings(page))


def test_the_page_in_markdown_is_as_it_was_looked_at() -> None:
    is_golden("small.md", markdown_page(run_of(small_log(), now_ms=LATER_MS)))


def test_a_run_that_is_over_is_the_same_whenever_it_is_looked_at() -> None:
    first, later = (run_of(small_log(), now_ms=now) for now in (0, LATER_MS))
    assert html_page(first) == html_page(later)
    assert first.over and first.summary.seconds == 66


def test_a_run_that_goes_on_says_so_and_counts_until_now() -> None:
    run = run_of(small_log()[:20], now_ms=BEGAN_MS + 100_000)
    assert not run.over
    assert run.summary.seconds == 100
    assert "At work." in html_page(run)
    assert "to now" in markdown_page(run)


def test_the_page_has_who_decided_what_and_when_in_which_words() -> None:
    run = run_of(small_log(), now_ms=LATER_MS)
    first, second = decisions(run).rows
    asked, answered = run.clock(BEGAN_MS + 10_000), run.clock(BEGAN_MS + 20_000)
    assert first == [
        asked, "ann", "Bash git push origin main", "yes", "you", answered, "Only this once.",
    ]  # fmt: skip
    assert second[2:5] == ["plan: Mock the parser", "no", "a rule"]
    assert "<pre># Mock the parser\nAll of it.</pre>" in html_page(run)
