"""Which cases of a long suite the gate plays. The night plays the others."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Sample:
    """About one case in `one_in` is played, of the tests that the pattern fits."""

    tests: str
    one_in: int
    reason: str


def samples() -> list[Sample]:
    """The samples of tests/samples.toml."""
    found = tomllib.loads((TESTS / "samples.toml").read_text(encoding="utf-8"))
    return [Sample(**each) for each in found["sample"]]


def guaranteed() -> set[tuple[str, str]]:
    """The tests that the page of guarantees names: each file and the name of a function in it."""
    page = (TESTS.parent / "docs" / "guarantees.md").read_text("utf-8")
    found = re.findall(r"\[([^]]+)\]\(\.\./(tests/[^)]+\.py)\)", page)
    return {(file, f"test_{name.replace(' ', '_')}") for name, file in found}


def left_out(
    ids: Sequence[str], drawn: Sequence[Sample], kept: Set[tuple[str, str]] = frozenset()
) -> set[str]:
    """The ids that the samples leave to the night.

    The id of a case decides about it: a new test changes nothing for the others. The first sample
    that fits counts. Of each suite, and of each test in `kept`, at least one case is played.
    """
    left: set[str] = set()
    others = list(ids)
    for sample in drawn:
        suite = [each for each in others if fnmatchcase(each, f"tests/{sample.tests}")]
        if suite:
            others = [each for each in others if not fnmatchcase(each, f"tests/{sample.tests}")]
            played = {each for each in suite if _number(each) % sample.one_in == 0}
            left |= set(suite) - (played or {min(suite, key=_number)})
    named: dict[tuple[str, str], list[str]] = {}
    for each in ids:
        if _function(each) in kept:
            named.setdefault(_function(each), []).append(each)
    for cases in named.values():
        if left.issuperset(cases):
            left.remove(min(cases, key=_number))
    return left


def _function(test: str) -> tuple[str, str]:
    """The file and the name of the function of a case."""
    file, _, rest = test.partition("[")[0].partition("::")
    return file, rest.rpartition("::")[2]


def _number(test: str) -> int:
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8], "big")
