"""How much work Python code does, counted in steps instead of seconds: the same at any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

STEPS_MAX = 20_000_000


class TooManySteps(AssertionError):
    """Some work took more steps than it may."""


def steps(work: Callable[[], object], *, at_most: int = STEPS_MAX) -> int:
    """The lines of Python that some work executes. What runs in C counts nothing."""
    before, count = sys.gettrace(), 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        if count > at_most:
            raise TooManySteps(f"more than {at_most} steps, now in {frame.f_code.co_name}")
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    if count > at_most:  # The work caught the error.
        raise TooManySteps(f"more than {at_most} steps")
    return count


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times the steps of some work twice the size takes: 2 when it grows linearly."""
    work(size)  # What is done once only, as filling a cache, is no growth.
    return steps(partial(work, 2 * size)) / steps(partial(work, size))
