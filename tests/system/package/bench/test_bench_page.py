"""The page of benchmarks is made from what they print, and says what could not be measured."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it measures with Linux clocks")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("page")


def test_the_page_has_the_goals_the_tables_and_what_failed(page: Any) -> None:
    common = {"unit": "ms", "figure": 2.0, "n": 3, "spread": [1.0, 4.0], "load": 9.0}
    rows = [
        {"name": "send", **common, "goal": "< 3 ms", "verdict": "not judged: load 9.0"},
        {"name": "without a goal", **common, "goal": "-", "verdict": "-"},
    ]
    first, second = page.SECTIONS[:2]
    table = "# Heading\n- cores: 2\n\n| a |\n| --- |\n| 1 |"
    text = page.page(
        [
            page.Output(first, "python benchmarks/a.py", table, rows, 9.0, 5.0),
            page.Output(second, "python benchmarks/b.py", "", [], 9.0, 5.0, "Traceback\nNo uv."),
        ],
        {"cores": "2"},
        "python benchmarks/page.py --quick",
    )
    assert "| send | 2 ms | < 3 ms | not judged: load 9.0 | 3 | 1 to 4 | 9.0 |" in text
    assert "without a goal" not in text
    assert text.count("- cores: 2") == 1
    assert "| a |\n| --- |\n| 1 |" in text
    assert "Heading" not in text
    assert "It could not be measured here: `No uv.`" in text
    assert "`python benchmarks/a.py`, load 9.0 before it, 5 s." in text
    assert "`python benchmarks/page.py --quick`" in text


def test_only_rows_in_the_common_shape_are_goals(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert list(page._rows(file)) == []
    for other in ("[1]", '{"columns": {}}', '{"rows": [{"name": "half"}]}'):
        file.write_text(other, "utf-8")
        assert list(page._rows(file)) == []


def test_programs_that_cannot_be_installed_are_named_with_the_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "peers.py", "--quick", "--dir", tmp_path],
        # Without uv, nothing can be installed.
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "- ClawTeam: not measured: [Errno 2]" in done.stdout
    assert "- claude-code-teams-mcp: not measured: [Errno 2]" in done.stdout
    assert "| claim and complete at 50 tasks |" in done.stdout
    assert list(tmp_path.iterdir()) == []
