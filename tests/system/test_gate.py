"""The gate plays a failed test again, once and alone; it never excuses a loss or a broken run."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]
LATE = """
import pytest
from pathlib import Path
def seen_before(name):
    seen = Path(name)
    was_here = seen.exists()
    seen.touch()
    return was_here
"""
PASSES_LATER = f"{LATE}\ndef test_late():\n    assert seen_before('seen')\n"
IS_READY_LATER = f"""{LATE}
@pytest.fixture
def server():
    assert seen_before('started')
def test_late(server):
    pass
"""
LOSES_ONCE = f"""{LATE}
@pytest.mark.no_loss
def test_nothing_is_lost():
    assert seen_before('lost')
"""
FAILS = "def test_broken():\n    assert False\n"
PASSES = "def test_steady():\n    pass\n"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that plays a part, in an empty project with a ledger of its own."""
    path = TESTS.parent / ".ci" / "gate.py"
    spec = importlib.util.spec_from_file_location("gate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look for the module of their annotations.
    monkeypatch.setitem(sys.modules, "gate", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "QUARANTINE", tmp_path / "quarantine.txt")
    monkeypatch.setattr(module, "_SECONDS", tmp_path / "seconds.json")
    (tmp_path / "quarantine.txt").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = no_loss\n", "utf-8")
    monkeypatch.setenv("BULLPEN_TESTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    # Loading the plugins of our own tests takes longer than these tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return module


def play(gate: ModuleType, **files: str) -> int:
    """Play a project of these files; the exit code of the gate."""
    for name, text in files.items():
        Path(f"test_{name}.py").write_text(text, "utf-8")
    words = [sys.executable, "-m", "pytest", "-ra", "--color=no", "-p", "support.gate.written"]
    code: int = gate.run([gate.Job([*words, "-p", "no:cacheprovider", "."])])
    return code


def test_a_test_that_was_late_passes_alone_and_is_named_and_remembered(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(gate, late=PASSES_LATER, steady=PASSES) == 0
    output = capsys.readouterr().out
    assert "passed only alone: test_late.py::test_late" in output
    assert " 2 passed, 1 rerun in " in output.splitlines()[-1]
    (row,) = gate.ledger().read_text("utf-8").splitlines()
    assert json.loads(row)["alone"] == ["test_late.py::test_late"]


def test_a_test_that_could_not_be_prepared_is_played_again_and_counted_once(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(gate, late=IS_READY_LATER) == 0
    assert " 1 passed, 1 rerun in " in capsys.readouterr().out.splitlines()[-1]


def test_each_failure_has_its_own_verdict_whatever_else_failed(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(gate, late=PASSES_LATER, broken=FAILS, loss=LOSES_ONCE) == 1
    output = capsys.readouterr().out
    assert "passed only alone: test_late.py::test_late" in output
    assert "FAILED: test_broken.py::test_broken" in output
    assert "FAILED: test_loss.py::test_nothing_is_lost" in output
    assert " 2 failed, 1 passed, 1 rerun in " in output.splitlines()[-1]


def test_what_proves_that_nothing_is_lost_has_one_try(gate: ModuleType) -> None:
    assert play(gate, loss=LOSES_ONCE) == 1


def test_twice_in_twenty_runs_puts_a_test_into_quarantine_where_it_fails_nothing(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        assert not gate.in_quarantine(), number
        Path("seen").unlink(missing_ok=True)
        assert play(gate, late=PASSES_LATER, steady=PASSES) == 0
    assert list(gate.in_quarantine()) == ["test_late.py::test_late"]
    capsys.readouterr()
    assert play(gate, late=PASSES_LATER.replace("assert", "assert not"), steady=PASSES) == 0
    output = capsys.readouterr().out
    assert "failed in quarantine (passed only alone 2 times): test_late.py::test_late" in output
    assert " 1 passed, 1 quarantined in " in output.splitlines()[-1]


def test_what_passed_only_alone_long_ago_is_forgotten(gate: ModuleType) -> None:
    assert gate.remember(["test_late.py::test_late"]) == []
    for _ in range(gate.LEDGER_RUNS - 1):
        assert gate.remember([]) == []
    assert gate.remember(["test_late.py::test_late"]) == []
    assert gate.remember(["test_late.py::test_late"]) == ["test_late.py::test_late"]


def test_a_run_that_broke_off_or_played_nothing_fails(gate: ModuleType) -> None:
    assert play(gate, unreadable="import nothing_of_this_name\n") != 0
    Path("test_unreadable.py").unlink()
    assert play(gate, empty="") == 1


def test_the_shards_of_a_night_together_play_every_file_once(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "ROOT", TESTS.parent)
    played = [
        word
        for number in (1, 2, 3)
        for job in gate.night(number, 3)[:2]
        for word in job.words
        if word.endswith(".py")
    ]
    there = {str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py")}
    timing = {path for path in there if path.startswith("tests/timing/")}
    gate_itself = {str(Path(__file__).relative_to(TESTS.parent))}
    assert sorted(played) == sorted(there - timing)
    assert gate_itself <= set(played)
