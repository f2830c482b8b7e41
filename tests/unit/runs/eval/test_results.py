"""Records of trials on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen import Conflict, Unreadable
from bullpen.runs.eval.plan import Trial
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


def test_a_damaged_record_is_not_left_out(results: Results) -> None:
    results.record(record())
    path = results.folder / "trials" / f"{TRIAL.id}.json"
    path.write_text(path.read_text()[:40])
    with pytest.raises(Unreadable):
        results.records()
