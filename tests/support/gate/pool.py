"""The order of the gate: whole files to each worker, slowest first, long files in pieces.

The last worker then waits for a short file, not for a long one, and what the tests of a file share
is set up once, or a few times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

DURATIONS = Path(__file__).parents[2] / "durations.json"
"""The seconds of the files that take longest: `python .ci/gate.py durations` writes it."""

USUAL_S = 0.5
"""What a file takes that is not listed."""

PIECE_S = 40.0
"""A longer file is played by several workers."""


def durations() -> dict[str, float]:
    """The seconds that a file took when somebody last looked."""
    found: dict[str, float] = json.loads(DURATIONS.read_text("utf-8"))
    return found


def in_pieces(ids: Sequence[str], took: Mapping[str, float]) -> dict[str, list[str]]:
    """The tests of each piece of work, the longest piece first."""
    files: dict[str, list[str]] = {}
    for test in ids:
        files.setdefault(test.partition("::")[0], []).append(test)
    pieces: list[tuple[float, str, list[str]]] = []
    for file, tests in files.items():
        file_s = took.get(file, USUAL_S)
        count = max(1, min(len(tests), round(file_s / PIECE_S)))
        for number in range(count):
            part = tests[number * len(tests) // count : (number + 1) * len(tests) // count]
            pieces.append((file_s / count, f"{file}#{number}", part))
    pieces.sort(key=lambda piece: (-piece[0], piece[1]))
    return {name: tests for _, name, tests in pieces}


def shard(files: Iterable[str], number: int, of: int, took: Mapping[str, float]) -> list[str]:
    """The files of one of several machines that together play all of them, about equally long."""
    loads = [0.0] * of
    mine = []
    for file in sorted(files, key=lambda file: (-took.get(file, USUAL_S), file)):
        least = loads.index(min(loads))
        loads[least] += took.get(file, USUAL_S)
        if least == number - 1:
            mine.append(file)
    return sorted(mine)


class Pool(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Gives the workers of pytest-xdist one piece after another."""

    def schedule(self) -> None:
        """Cut what was collected into pieces, at the first call."""
        if self.collection is None:
            ids = next(iter(self.registered_collections.values()))
            self._piece = {
                test: piece
                for piece, tests in in_pieces(ids, durations()).items()
                for test in tests
            }
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._piece[nodeid]
