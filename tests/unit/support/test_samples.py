"""Long suites are sampled; each sample names a suite that is there, and says why."""

from __future__ import annotations

from support.samples import TESTS, Sample, guaranteed, left_out, samples

SAMPLE = Sample("chaos/test_a.py::*", 3, "long")


def test_about_one_case_in_so_many_is_played_and_tests_outside_the_suite_all_are() -> None:
    ids = [f"tests/chaos/test_a.py::test_it[{number}]" for number in range(300)]
    others = ["tests/chaos/test_b.py::test_it[0]"]
    left = left_out([*ids, *others], [SAMPLE])
    assert 70 < len(set(ids) - left) < 130
    assert not left & set(others)


def test_a_new_case_changes_nothing_for_the_others() -> None:
    ids = [f"tests/chaos/test_a.py::test_it[{number}]" for number in range(60)]
    some = ids[1::2]
    assert left_out(some, [SAMPLE]) == left_out(ids, [SAMPLE]) & set(some)


def test_of_each_suite_one_case_is_played_at_least() -> None:
    for number in range(40):
        (test,) = ids = [f"tests/chaos/test_a.py::test_it[{number}]"]
        assert left_out(ids, [SAMPLE]) == set(), test


def test_every_sample_is_of_a_suite_that_is_there_and_says_why() -> None:
    for sample in samples():
        assert list(TESTS.glob(sample.tests.partition("::")[0])), sample
        assert sample.one_in >= 1
        assert len(sample.reason.split()) > 5


def test_a_test_that_a_guarantee_names_is_always_played() -> None:
    ids = [f"tests/chaos/test_a.py::test_it[{number}]" for number in range(9)]
    others = [f"tests/chaos/test_a.py::test_that[{number}]" for number in range(300)]
    rare = Sample("chaos/test_a.py::*", 10**9, "rare")
    left = left_out([*ids, *others], [rare], {("tests/chaos/test_a.py", "test_it")})
    assert len(set(ids) - left) == 1
    assert len(guaranteed()) > 40


def test_the_first_sample_that_fits_counts() -> None:
    ids = [f"tests/chaos/test_a.py::test_it[{number}]" for number in range(60)]
    assert left_out(ids, [Sample("chaos/test_a.py::*", 1, "never"), SAMPLE]) == set()
