"""Records of trials on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bullpen import Conflict, Unreadable
from bullpen.runs.eval.plan import Trial
from bullpen.runs.eval.records.files import put_once, read_json
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.statistics import Measures

TRIAL = Trial("a", "solo", 1, 1.0)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    found = Results(tmp_path / "results")
    found.begin({"suite": "s"})
    return found


def record(verdict: str = "passed", usd: float = 0.5) -> TrialRecord:
    return TrialRecord("a", "solo", 1, verdict, "", Measures(usd=usd))  # type: ignore[arg-type]


def test_a_record_is_read_as_it_was_written(results: Results) -> None:
    results.record(record(), patch="diff\n", output="ok\n")
    assert results.records() == [record()]
    assert results.is_recorded(TRIAL)


def test_the_first_verdict_of_a_trial_stays(results: Results) -> None:
    results.record(record("failed"))
    results.record(record("passed"))
    assert [each.verdict for each in results.records()] == ["failed"]


def test_a_trial_that_could_not_be_run_is_run_again(results: Results) -> None:
    results.record(record("error"))
    assert not results.is_recorded(TRIAL)
    assert [each.verdict for each in results.records()] == ["error"]
    results.record(record("passed"))
    assert [each.verdict for each in results.records()] == ["passed"]


def test_a_trial_is_taken_once(results: Results) -> None:
    other = Results(results.folder)
    with results.claimed(TRIAL) as mine, other.claimed(TRIAL) as theirs:
        assert (mine, theirs) == (True, False)
    with other.claimed(TRIAL) as theirs:
        assert theirs


def test_another_eval_cannot_use_the_same_folder(results: Results) -> None:
    results.begin({"suite": "s"})
    with pytest.raises(Conflict, match="suite differ"):
        results.begin({"suite": "another"})


def test_an_error_that_a_kill_left_beside_a_verdict_does_not_count(results: Results) -> None:
    results.record(record("error"))
    error = results.folder / "trials" / f"{TRIAL.id}.error.json"
    left = error.read_bytes()
    results.record(record("passed"))
    error.write_bytes(left)
    assert [each.verdict for each in results.records()] == ["passed"]


def test_an_error_that_another_process_replaces_while_records_are_read_is_no_damage(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.record(record("error"))
    error = results.folder / "trials" / f"{TRIAL.id}.error.json"

    def read(path: Path) -> dict[str, object]:
        error.unlink(missing_ok=True)
        return read_json(path)

    monkeypatch.setattr("bullpen.runs.eval.results.read_json", read)
    assert results.records() == []


def test_records_that_cannot_be_listed_are_not_no_records(results: Results) -> None:
    (results.folder / "trials").rmdir()
    with pytest.raises(Unreadable):
        results.records()


def test_a_record_under_the_name_of_another_trial_is_damaged(results: Results) -> None:
    results.record(record())
    path = results.folder / "trials" / f"{TRIAL.id}.json"
    path.rename(path.with_name("a--solo--2.json"))
    with pytest.raises(Unreadable, match="it is about a--solo--1"):
        results.records()


@pytest.mark.parametrize("wrong", [{"measures": {"usd": "much"}}, {"verdict": "maybe"}])
def test_a_record_with_another_kind_of_value_is_damaged(
    results: Results, wrong: dict[str, object]
) -> None:
    results.record(record())
    path = results.folder / "trials" / f"{TRIAL.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    with pytest.raises(Unreadable):
        results.records()


def test_what_is_measured_is_checked_too(results: Results) -> None:
    with pytest.raises(Unreadable, match="suite_digest"):
        results.about()


def test_processes_with_the_same_number_on_two_hosts_do_not_write_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    path = tmp_path / "eval.json"
    opened: list[str] = []
    real = os.open

    def noted(name: str, *rest: int, **more: int) -> int:
        opened.append(str(name))
        return real(name, *rest, **more)

    monkeypatch.setattr(os, "open", noted)
    put_once(path, {"who": "one"})
    put_once(path, {"who": "two"})
    written = [name for name in opened if ".eval.json." in name]
    assert len(set(written)) == 2
    assert json.loads(path.read_text()) == {"who": "one"}


def test_a_damaged_record_is_not_left_out(results: Results) -> None:
    results.record(record())
    path = results.folder / "trials" / f"{TRIAL.id}.json"
    path.write_text(path.read_text()[:40])
    with pytest.raises(Unreadable):
        results.records()
