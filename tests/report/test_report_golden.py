"""The pages of one small run, to the letter. BULLPEN_REPORT_GOLDEN=write makes them again."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bullpen.errors import Invalid
from bullpen.protocol import jsontext
from bullpen.report.markdown import markdown_page
from bullpen.report.page import html_page
from bullpen.report.run import run_of
from bullpen.report.saved import saved_events

from .small_log import BEGAN_MS, small_log

GOLDEN = Path(__file__).parent / "golden"
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
    is_golden("events.json", jsontext.dumps(whole).decode())
    assert saved_events(GOLDEN / "events.json") == small_log()


def test_a_log_that_was_saved_line_by_line_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "followed.jsonl"
    lines = [jsontext.dumps_line(event.encode()) for event in small_log()]
    path.write_bytes(b"\n".join(lines) + b"\n\n")
    assert saved_events(path) == small_log()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "There are no events"),
        (b"not json\n", "Line 1 of .* is no JSON"),
        (b'{"seq": 1}\n', "Event 1 cannot be read"),
        (b"[1]\n", "Event 1 cannot be read: it is no JSON object"),
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
    with pytest.raises(Invalid, match="no whole log of a team"):
        run_of(small_log()[3:], now_ms=LATER_MS)
    with pytest.raises(Invalid, match="no whole log of a team"):
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
    assert "it is running" in html_page(run)
    assert "to now" in markdown_page(run)


def test_the_page_has_who_decided_what_and_when_in_which_words() -> None:
    first, second = run_of(small_log(), now_ms=LATER_MS).decisions
    assert (first.sender, first.about, first.state) == (
        "ann",
        "Bash git push origin main",
        "approved",
    )
    assert (first.by, first.words) == ("team-lead", "Only this once.")
    assert (first.asked_ms, first.answered_ms) == (BEGAN_MS + 10_000, BEGAN_MS + 20_000)
    assert (second.about, second.state, second.by) == ("plan: Mock the parser", "denied", "a rule")
    assert second.whole == "# Mock the parser\nAll of it."
