"""The gate plays a few late tests again, alone; it never excuses a test that proves no loss."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PASSES_LATER = """
from pathlib import Path
def test_late():
    seen = Path("seen")
    was_here = seen.exists()
    seen.touch()
    assert was_here
def test_steady():
    pass
"""
IS_READY_LATER = """
import pytest
from pathlib import Path
@pytest.fixture
def server():
    seen = Path("seen")
    was_here = seen.exists()
    seen.touch()
    assert was_here
def test_late(server):
    pass
"""
PASSES_ON = """
from pathlib import Path
def test_late():
    seen = Path("seen")
    times = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (times + 1))
    assert times in {}
"""
FAILS = "def test_broken():\n    assert False\n"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that runs the tiers, in an empty project."""
    path = Path(__file__).parents[2] / ".ci" / "tiers.py"
    spec = importlib.util.spec_from_file_location("tiers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pytest_words = [sys.executable, "-m", "pytest", "-ra", "--color=no"]
    monkeypatch.setattr(module, "TIERS", dict.fromkeys(("system", "chaos"), pytest_words))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.chdir(tmp_path)
    return module


def write(test: str, text: str) -> None:
    path = Path("tests", test)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_a_test_that_was_late_passes_alone_and_is_named(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    write("system/test_late.py", PASSES_LATER)
    assert gate.main(["system"]) == 0
    output = capsys.readouterr().out
    assert "passed only alone: tests/system/test_late.py::test_late" in output
    assert " 2 passed, 1 rerun in " in output.splitlines()[-1]


def test_a_test_that_could_not_be_prepared_is_counted_once(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    write("system/test_late.py", IS_READY_LATER)
    assert gate.main(["system"]) == 0
    assert " 1 passed, 1 rerun in " in capsys.readouterr().out.splitlines()[-1]


def test_a_test_that_passes_twice_of_three_times_alone_passes(gate: ModuleType) -> None:
    write("system/test_late.py", PASSES_ON.format("{1, 3}"))
    assert gate.main(["system"]) == 0
    assert Path("seen").read_text("utf-8") == "xxxx"


def test_a_test_that_fails_twice_alone_fails_the_gate(gate: ModuleType) -> None:
    write("system/test_late.py", PASSES_ON.format("{3}"))
    assert gate.main(["system"]) == 1
    assert Path("seen").read_text("utf-8") == "xxx"


def test_a_test_that_fails_again_fails_the_gate(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    write("system/test_broken.py", FAILS)
    assert gate.main(["system"]) == 1
    assert " 1 failed in " in capsys.readouterr().out.splitlines()[-1]


def test_what_proves_that_nothing_is_lost_has_one_try(gate: ModuleType) -> None:
    write("chaos/files/test_late.py", PASSES_LATER)
    assert gate.main(["chaos"]) == 1


def test_what_waits_for_servers_has_a_second_try(gate: ModuleType) -> None:
    write("chaos/nats/test_late.py", PASSES_LATER)
    assert gate.main(["chaos"]) == 0


def test_many_failures_and_a_run_that_broke_off_are_no_accidents(gate: ModuleType) -> None:
    few = [f"tests/system/test_{number}.py::test" for number in range(gate.MOST_AGAIN)]
    assert gate.may_be_accidents({"system": few}, {"system": 1})
    assert not gate.may_be_accidents({"system": [*few, "tests/system/test_x.py"]}, {"system": 1})
    assert gate.may_be_accidents({"system": [*few, f"{few[0]}_again"]}, {"system": 1})
    assert not gate.may_be_accidents({"system": few}, {"system": 2})
    assert not gate.may_be_accidents({"system": []}, {"system": 1})
