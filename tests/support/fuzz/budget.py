"""How many cases, which ones, and what is kept of those that fail."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CASES = int(os.environ.get("BULLPEN_FUZZ_CASES") or 4_000)
SEED = int(os.environ.get("BULLPEN_FUZZ_SEED") or 20_261_114)
ONLY = os.environ.get("BULLPEN_FUZZ_ONLY") or ""

_FILE_SHARE = 0.7
_FAILURES_SHOWN_MAX = 5
_FAILURES_MAX = 50
_CASES = {"files": round(CASES * _FILE_SHARE), "arguments": CASES - round(CASES * _FILE_SHARE)}


PARTS = {"files": 14, "arguments": 6}
"""In how many tests the cases of a kind are run."""


def numbers(kind: str, part: int) -> Iterator[int]:
    """The numbers of the cases that one part of a kind has to run."""
    only_kind, _, only = ONLY.partition(":")
    if ONLY and (only_kind != kind or not only.isdigit()):
        return
    for number in [int(only)] if ONLY else range(_CASES[kind]):
        if number % PARTS[kind] == part:
            yield number


def dice(kind: str, number: int) -> random.Random:
    """The chances of one case: the same for the same seed, whatever ran before."""
    return random.Random(f"{SEED}:{kind}:{number}")


def fast_folder() -> Path:
    """A new folder, in memory where there is such a file system."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
    return Path(tempfile.mkdtemp(prefix="bullpen-fuzz-", dir=memory if usable else None))


@dataclass(slots=True)
class Failures:
    """The cases that failed, each kept in a folder of its own."""

    kind: str
    ran: int = 0
    reports: list[str] = field(default_factory=list)

    def add(self, number: int, what: str, *, keep: Mapping[str, bytes]) -> None:
        """Note a failed case, and keep what it had damaged."""
        parent = os.environ.get("BULLPEN_FUZZ_SAVE")
        if parent:
            Path(parent).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{self.kind}-{number}-", dir=parent or None))
        again = f"BULLPEN_FUZZ_SEED={SEED} BULLPEN_FUZZ_ONLY={self.kind}:{number}"
        report = f"case {self.kind}:{number}\n{what}\nagain: {again}\nkept in: {folder}"
        (folder / "report.txt").write_text(report, "utf-8", errors="backslashreplace")
        for name, data in keep.items():
            (folder / name.replace("/", "%")[-200:]).write_bytes(data)
        self.reports.append(report)

    @property
    def too_many(self) -> bool:
        """Whether so much is broken that the rest has nothing to teach."""
        return len(self.reports) >= _FAILURES_MAX

    def check(self) -> None:
        """Fail the test if any case failed."""
        if self.reports:
            shown = "\n\n".join(self.reports[:_FAILURES_SHOWN_MAX])
            pytest.fail(f"{len(self.reports)} of {self.ran} cases failed.\n\n{shown}", False)


def remove(folder: Path) -> None:
    """Remove a folder that a test made."""
    shutil.rmtree(folder, ignore_errors=True)
