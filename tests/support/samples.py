"""Which cases of a long suite most runs play. The nightly run plays all of them.

python tests/support/samples.py    # the files of these suites
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Sample:
    """One case in `one_in` is played, of the tests that the pattern fits."""

    tests: str
    one_in: int
    reason: str


def samples() -> list[Sample]:
    """The samples of tests/samples.toml."""
    found = tomllib.loads((TESTS / "samples.toml").read_text(encoding="utf-8"))
    return [Sample(**each) for each in found["sample"]]


def left_out(ids: Sequence[str], drawn: Sequence[Sample]) -> set[str]:
    """The ids that the samples leave to the nightly run. The same cases are drawn each time."""
    left: set[str] = set()
    for sample in drawn:
        suite = [each for each in ids if fnmatchcase(each, f"tests/{sample.tests}")]
        left |= set(suite) - set(suite[:: sample.one_in])
    return left


def files(sample: Sample) -> list[str]:
    """The files of a sampled suite."""
    found = TESTS.glob(sample.tests.partition("::")[0])
    return [f"tests/{path.relative_to(TESTS)}" for path in found]


if __name__ == "__main__":
    print(*sorted({file for sample in samples() for file in files(sample)}), sep="\n")
