"""What the attempts of processes that share a folder may cost together."""

from __future__ import annotations

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bullpen import Unavailable, Unreadable
from bullpen.runs.eval.plan import Trial
from bullpen.runs.eval.records import attempts as attempts_module
from bullpen.runs.eval.records.attempts import Attempts


def trial(number: int) -> Trial:
    return Trial("a", "solo", number, 0.5)


def begin(folder: Path, number: int, money: float | None = 1.0) -> bool:
    made = Attempts(folder).begin(trial(number), money, host="here", began="now")
    return made is not None


def test_processes_together_begin_no_more_than_the_money_covers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(lambda number: begin(tmp_path, number), range(16)))
    assert sum(begun) == 2
    assert len(Attempts(tmp_path).all()) == 2


def test_what_an_attempt_did_not_use_is_free_again(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    assert begin(tmp_path, 1)
    assert begin(tmp_path, 2)
    assert not begin(tmp_path, 3)
    attempts.end(attempts.all()[0], 0.0)
    assert begin(tmp_path, 3)
    assert [each.usd for each in attempts.all()] == [0.0, None, None]


def test_each_attempt_at_a_trial_counts(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    for _ in range(3):
        assert begin(tmp_path, 1, money=None)
        attempts.end(attempts.killed(trial(1))[0], 0.1)
    assert [(each.number, each.usd) for each in attempts.all()] == [(1, 0.1), (2, 0.1), (3, 0.1)]


def test_a_damaged_attempt_is_not_left_out(tmp_path: Path) -> None:
    assert begin(tmp_path, 1)
    (tmp_path / "a--solo--1--1.json").write_text(json.dumps({"format": 1, "trial": "x"}))
    with pytest.raises(Unreadable):
        begin(tmp_path, 2)


def test_attempts_that_are_not_there_are_not_no_attempts(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        Attempts(tmp_path / "not-copied").all()


def test_a_lock_that_is_never_released_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts_module, "_LOCK_S", 0.2)
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="was locked for"):
            begin(tmp_path, 1)
