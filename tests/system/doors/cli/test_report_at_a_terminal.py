"""`bullpen report` at a terminal: a page of HTML goes into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.cli.runs import report


def test_at_a_terminal_the_page_is_written_into_a_file(
    tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("team", "create", "calc")
    assert run("report").stdout.startswith("<!")
    monkeypatch.setattr(report, "is_terminal", lambda stream: True)
    assert run("report").stdout == "Wrote report.html.\n"
    assert (tmp_path / "report.html").read_text().startswith("<!")
    assert not run("report", "--format", "md").stdout.startswith("Wrote")
