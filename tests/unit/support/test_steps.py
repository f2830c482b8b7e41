"""Work is counted in executed lines: the same at any load, and stopped when there is too much."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

from support.steps import TooManySteps, growth, steps


def once(size: int) -> None:
    for _ in range(size):
        pass


def square(size: int) -> None:
    for _ in range(size):
        once(size)


def test_the_same_work_takes_the_same_steps() -> None:
    assert steps(lambda: square(20)) == steps(lambda: square(20)) > 20 * 20


def test_growth_tells_linear_work_from_the_square() -> None:
    assert growth(once, 100) < 2.2
    assert growth(square, 100) > 3.5


def test_work_without_an_end_is_stopped() -> None:
    def endless() -> None:
        while True:
            pass

    def catches() -> None:
        with suppress(Exception):
            endless()

    for work in (endless, catches):
        with pytest.raises(TooManySteps):
            steps(work, at_most=1000)


def test_whoever_traced_before_traces_again() -> None:
    before = sys.gettrace()
    steps(lambda: once(3))
    assert sys.gettrace() is before
