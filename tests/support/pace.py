"""How fast this machine is here and now, so that no test judges an absolute time.

A limit is so many times what bare Python takes in the same run: it grows with the load.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache

_COUNT = 1_000_000


def cpu_s(work: Callable[[], object], *, tries: int = 3) -> float:
    """The CPU time that some work takes, at its best."""
    return min(_once(work) for _ in range(tries))


@cache
def counting_s() -> float:
    """The CPU time in which bare Python counts to a million: about 0.02 s on a quiet machine."""
    return cpu_s(_count, tries=5)


def bare_python_s() -> float:
    """The time from the start of a bare Python to its end: about 0.02 s on a quiet machine."""
    words = [sys.executable, "-I", "-S", "-c", "pass"]
    began = time.monotonic()
    for _ in range(3):
        subprocess.run(words, check=True)
    return (time.monotonic() - began) / 3


def _count() -> None:
    for _ in range(_COUNT):
        pass


def _once(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
