"""`bullpen report` as people use it: while a team works, later, and of a team that is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.doors.report.page import html_page
from bullpen.doors.report.run_facts import run_of
from support.doors.small_log import small_log

GOLDEN = Path(__file__).parents[3] / "support/doors/report_golden"
DEADLINE_S = 60


def bullpen(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_a_team_that_is_gone_is_reported_from_its_saved_log(tmp_path: Path) -> None:
    home, page = tmp_path / "home", tmp_path / "page.html"
    for words in (
        ["team", "create", "alpha", "--description", "Paint <b>it</b>"],
        ["task", "add", "Mix the colour"],
    ):
        assert bullpen(home, *words).returncode == 0
    live = bullpen(home, "report")
    assert "Mix the colour" in live.stdout and "<b>it" not in live.stdout
    saved = tmp_path / "saved.json"
    saved.write_text(bullpen(home, "events", "--json").stdout, encoding="utf-8")
    assert bullpen(home, "team", "delete", "alpha", "--yes").returncode == 0
    later = bullpen(home, "report", "--events", str(saved), "-o", str(page))
    assert later.stdout == f"Wrote {page}.\n"
    assert page.read_text(encoding="utf-8") == live.stdout
    assert [each.name for each in tmp_path.glob(".*")] == [], "nothing is left beside it"


def test_a_name_that_ends_in_md_is_markdown_unless_something_else_is_said(tmp_path: Path) -> None:
    log, page = str(GOLDEN / "events.json"), tmp_path / "comment.md"
    assert bullpen(tmp_path, "report", "--events", log, "-o", str(page)).returncode == 0
    assert page.read_text(encoding="utf-8") == (GOLDEN / "small.md").read_text(encoding="utf-8")
    assert (
        bullpen(tmp_path, "report", "--events", log, "-o", str(page), "--format", "html").returncode
        == 0
    )
    assert page.read_text(encoding="utf-8") == html_page(run_of(small_log(), now_ms=0))


@pytest.mark.parametrize("name", ["no/such/folder/page.html", "."])
def test_a_page_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    done = bullpen(tmp_path, "report", "--events", str(GOLDEN / "events.json"), "-o", str(path))
    assert done.returncode == 5
    assert f"error: Cannot use {path}" in " ".join(done.stderr.split())
