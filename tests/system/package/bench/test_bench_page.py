"""The page of benchmarks is made from what they print, and says what could not be measured."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from .bench_script import BENCHMARKS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it measures with Linux clocks")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("page")


COMMON = {"unit": "ms", "figure": 2.0, "n": 3, "spread": [1.0, 4.0], "load": 9.0}


def output(page: Any, script: str, text: str = "", failed: str = "", *rows: Any) -> Any:
    command = f"python benchmarks/{script}.py"
    return page.Output(script, command, text, rows, 9.0, 5.0, "today", False, failed)


def test_the_page_has_the_goals_the_tables_and_what_failed(page: Any) -> None:
    rows = [
        {"name": "send", **COMMON, "goal": "< 3 ms", "verdict": "not judged: load 9.0"},
        {"name": "lost", **COMMON, "goal": "0", "verdict": "FAIL"},
        {"name": "without a goal", **COMMON, "goal": "-", "verdict": "-"},
    ]
    table = "# Heading\n- cores: 2\n\n| a |\n| --- |\n| 1 |"
    outputs = {
        "run": output(page, "run", table, "", *rows),
        "peers": output(page, "peers", failed="No uv."),
    }
    text = page.page(outputs, {"cores": "2"})
    assert "| send | 2 ms | < 3 ms | not judged: load 9.0 | 3 | 1 to 4 | 9.0 |" in text
    assert "Of 2 goals, 0 were reached, 1 missed, 1 not judged." in text
    assert "without a goal" not in text
    assert text.count("- cores: 2") == 1
    assert "| a |\n| --- |\n| 1 |" in text
    assert "Heading" not in text
    assert "It could not be measured here: `No uv.`" in text
    assert "`python benchmarks/run.py`, today, load 9.0 before it, 5 s." in text
    assert "Not measured: Commands, Tokens, Growth," in text
    assert "quick runs" not in text


def test_one_part_is_measured_again_and_the_others_are_kept(
    page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[tuple[str, bool]] = []
    failures: dict[str, str] = {}

    def run(section: Any, more: Any, at: str, *, is_quick: bool) -> Any:
        measured.append((section.script, is_quick))
        row = {"name": section.script, **COMMON, "goal": "< 3 ms", "verdict": "PASS"}
        why = failures.get(section.script, "")
        return output(page, section.script, f"run {len(measured)}", why, row)

    monkeypatch.setattr(page, "run", run)
    monkeypatch.setattr(page.machine, "is_quiet", lambda: True)
    kept, out = tmp_path / "kept" / "page.json", tmp_path / "page.md"

    def write(*words: str) -> str:
        command = ["page.py", "--saved", str(kept), "--out", str(out), *words]
        monkeypatch.setattr(sys, "argv", command)
        measured.clear()
        with pytest.raises(SystemExit) as ended:
            page.main()
        assert ended.value.code == int(any(name in failures for name, _ in measured))
        return out.read_text("utf-8")

    write("--only", "run")
    first = write("--only", "peers", "tokens", "--quick")
    assert measured == [("tokens", True), ("peers", True)]
    assert "3 were reached" in first
    again = write("--only")
    assert measured == []
    assert again.partition("## Goals")[2] == first.partition("## Goals")[2]
    failures["peers"] = "No uv."
    assert write("--only", "peers").partition("## Goals")[2] == first.partition("## Goals")[2]
    assert "`No uv.`" in write()
    assert [name for name, _ in measured] == [each.script for each in page.SECTIONS]


@pytest.mark.parametrize("size", ["full", "quick"])
def test_every_script_of_the_page_takes_the_words_that_it_is_given(page: Any, size: str) -> None:
    for section in page.SECTIONS:
        words = [*getattr(section, size), "--json", "rows.json", "--help"]
        done = subprocess.run(
            [sys.executable, BENCHMARKS / f"{section.script}.py", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
