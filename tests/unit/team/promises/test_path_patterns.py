"""Which paths a promise covers, and which promises overlap."""

from __future__ import annotations

from itertools import product

import pytest

from bullpen.errors import Invalid
from bullpen.team.promises.path_patterns import check_pattern, covers, overlap
from support.rows import each_row


@each_row(
    ("one", "other"),
    [
        ("src/app.py", "src/app.py"),
        ("src/App.py", "SRC/app.PY"),
        ("src/", "src/app.py"),
        ("src", "src/deep/app.py"),
        ("src/**", "src/deep/*.py"),
        ("**/routes.py", "src/**"),
        ("src/*.py", "src/r*"),
        ("a*c.py", "*b*.py"),
        ("src/?.py", "src/a*.py"),
        ("./src/app.py", "src//app.py"),
    ],
)
def test_patterns_overlap_if_some_path_fits_both(one: str, other: str) -> None:
    assert overlap(one, other)
    assert overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/app.py", "src/apps.py"),
        ("src/app.py", "**/routes.py"),
        ("src/*.py", "src/deep/app.py"),
        ("src/*.py", "src/*.js"),
        ("a/**", "b/**"),
        ("src/ab*.py", "src/ac*.py"),
        ("src/??.py", "src/a.py"),
    ],
)
def test_patterns_that_no_path_fits_do_not_overlap(one: str, other: str) -> None:
    assert not overlap(one, other)
    assert not overlap(other, one)


def test_overlap_agrees_with_trying_all_short_names() -> None:
    names = ["".join(chars) for size in (1, 2, 3) for chars in product("ab", repeat=size)]
    patterns = [*map("".join, product("ab*?", repeat=2)), *map("".join, product("a*?", repeat=3))]
    for one, other in product(patterns, repeat=2):
        tried = any(covers(f"{one}.x", f"{n}.x") and covers(f"{other}.x", f"{n}.x") for n in names)
        assert overlap(f"{one}.x", f"{other}.x") == tried, (one, other)


@pytest.mark.parametrize("pattern", ["", " ", "/etc/passwd", "~/x", "../x", "a/../b", "**", "*/**"])
def test_a_pattern_outside_of_the_project_or_of_all_of_it_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        check_pattern(pattern)
