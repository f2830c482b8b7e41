"""Long suites are sampled; each sample names a suite that is there, and says why."""

from __future__ import annotations

from support.samples import Sample, files, left_out, samples


def test_one_case_in_so_many_is_played_and_tests_outside_the_suite_all_are() -> None:
    ids = [f"tests/chaos/test_a.py::test_it[{number}]" for number in range(7)]
    others = ["tests/chaos/test_b.py::test_it[0]"]
    left = left_out([*ids, *others], [Sample("chaos/test_a.py::*", 3, "long")])
    assert sorted(set(ids) - left) == [ids[0], ids[3], ids[6]]
    assert not left & set(others)


def test_every_sample_is_of_a_suite_that_is_there_and_says_why() -> None:
    for sample in samples():
        assert files(sample), sample
        assert sample.one_in > 1
        assert len(sample.reason.split()) > 5
