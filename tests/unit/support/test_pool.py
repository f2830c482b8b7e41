"""Files are played slowest first, long ones in pieces, and shards are about equally long."""

from __future__ import annotations

import tomllib

from support.gate.pool import PIECE_S, USUAL_S, durations, in_pieces, shard
from support.samples import TESTS

ALWAYS_WHOLE = ("tests/programs/", "tests/unit/support/")
"""The night plays the programs anyway."""


def test_the_slowest_file_is_first_and_a_long_one_is_cut() -> None:
    long = [f"tests/b.py::test[{number}]" for number in range(5)]
    ids = ["tests/a.py::test", *long, "tests/c.py::test"]
    pieces = in_pieces(ids, {"tests/b.py": 2 * PIECE_S, "tests/c.py": PIECE_S - 1})
    assert list(pieces.values()) == [long[:2], long[2:], ["tests/c.py::test"], ["tests/a.py::test"]]


def test_a_long_file_with_one_test_stays_whole() -> None:
    ids = ["tests/a.py::test"]
    assert list(in_pieces(ids, {"tests/a.py": 9 * PIECE_S}).values()) == [ids]


def test_shards_are_about_equally_long_and_have_every_file_once() -> None:
    files = [f"tests/{number}.py" for number in range(40)]
    took = {"tests/7.py": 10.0, "tests/9.py": 10.0}
    shards = [shard(files, number, 3, took) for number in (1, 2, 3)]
    assert sorted(file for each in shards for file in each) == sorted(files)
    loads = [sum(took.get(file, USUAL_S) for file in each) for each in shards]
    assert max(loads) - min(loads) <= USUAL_S


def test_every_file_with_a_known_duration_is_there() -> None:
    missing = [file for file in durations() if not (TESTS.parent / file).exists()]
    assert missing == []


def test_every_suite_of_the_night_is_there() -> None:
    listed = tomllib.loads((TESTS / "full_size.toml").read_text("utf-8"))["suite"]
    named = [word for suite in listed for word in suite["tests"] if word.startswith("tests/")]
    assert [word for word in named if not (TESTS.parent / word).exists()] == []
    reading = {
        str(path.relative_to(TESTS.parent))
        for path in TESTS.rglob("test_*.py")
        if 'BULLPEN_NIGHTLY")' in path.read_text("utf-8")
    }
    reading = {path for path in reading if not path.startswith(ALWAYS_WHOLE)}
    assert [path for path in reading if not path.startswith(tuple(named))] == []
