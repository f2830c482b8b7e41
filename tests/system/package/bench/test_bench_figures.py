"""A benchmark that cannot flatter: no verdict about the speed of a busy machine."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from .bench_script import BENCHMARKS


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("figures")


@pytest.mark.parametrize(
    ("load", "verdict"), [(0.5, "PASS"), (4.0, "PASS"), (4.1, "not judged: load 4.1")]
)
def test_speed_is_judged_on_a_quiet_machine_only(figures: Any, load: float, verdict: str) -> None:
    ours = figures.figure_of([1.0, 2.0, 9.0], "ms")
    row = figures.Row(1, "a send", ours, figures.below(ours, 3), load=load)
    assert row.verdict == verdict
    assert "| 2 ms |" in figures.table([row])
    assert f"| {verdict} | 3 | 1 to 9 | {load:.1f} |" in figures.table([row])
    assert row.encode()["verdict"] == verdict


def test_a_fault_counts_at_any_load(figures: Any) -> None:
    for faults, verdict in ((0, "PASS"), (1, "FAIL")):
        lost = figures.Figure(faults, "")
        row = figures.Row(4, "lost", lost, figures.none_at_all(lost), load=50.0)
        assert row.verdict == verdict


def test_a_percentile_is_one_of_the_values_and_not_a_better_one(figures: Any) -> None:
    values = [float(each) for each in range(100, 0, -1)]
    assert figures.percentile(values, 50) == 50
    assert figures.percentile(values, 99) == 99
    assert figures.percentile(values[:20], 99) == 100
    assert figures.percentile([7.0], 99) == 7


@pytest.mark.parametrize(("was_quiet", "looks"), [(True, 3), (False, 1)])
def test_a_quiet_machine_waits_until_its_own_load_has_passed(
    figures: Any, monkeypatch: pytest.MonkeyPatch, was_quiet: bool, looks: int
) -> None:
    machine = import_module("machine")
    loads = iter([9.0, 6.0, 3.0, 3.0])
    asked: list[float] = []

    def load() -> float:
        asked.append(next(loads))
        return asked[-1]

    monkeypatch.setattr(machine, "load", load)
    monkeypatch.setattr(machine.time, "sleep", lambda _: None)
    found = machine.settled_load(was_quiet=was_quiet)
    assert found == (3.0 if was_quiet else 6.0)
    assert len(asked) == looks + 1
