"""Play many histories, in one process or in several, and tell what was found."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .faults import KINDS, Kind
from .world import history, setup_of

_CHUNK = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A history that broke a promise."""

    seed: int
    setup: str
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.setup}): " + "; ".join(self.wrong)


def play_each(seeds: Iterable[int], kinds: tuple[Kind, ...] = KINDS) -> Iterator[Found]:
    """Play histories in this process; yields those that broke a promise."""
    # Killed processes leave circles behind; they are collected between histories.
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Coroutines of killed processes are never awaited.
            warnings.simplefilter("ignore")
            for number, seed in enumerate(seeds):
                world = history(seed, setup_of(seed, kinds))
                if world.wrong:
                    yield Found(seed, str(world.setup), tuple(world.wrong))
                if number % 25 == 24:
                    gc.collect()
    finally:
        gc.enable()
        gc.collect()


def _play_chunk(seeds: Sequence[int]) -> list[Found]:
    return list(play_each(seeds))


def play_all(first: int, many: int, *, workers: int) -> Iterator[tuple[int, list[Found]]]:
    """Play histories in several processes; yields how many were played, and what was found."""
    chunks = [
        range(begin, min(begin + _CHUNK, first + many))
        for begin in range(first, first + many, _CHUNK)
    ]
    if workers <= 1:
        for chunk in chunks:
            yield len(chunk), _play_chunk(chunk)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for number, found in enumerate(pool.imap(_play_chunk, chunks)):
            yield len(chunks[number]), found


def main() -> None:
    """Play BULLPEN_SIMULATIONS histories from BULLPEN_SIMULATION_FIRST on, on all processors."""
    many = int(os.environ.get("BULLPEN_SIMULATIONS", "1000"))
    first = int(os.environ.get("BULLPEN_SIMULATION_FIRST", "0"))
    workers = int(os.environ.get("BULLPEN_SIMULATION_WORKERS", str(os.cpu_count() or 1)))
    begun, played, broken = time.monotonic(), 0, 0
    for count, found in play_all(first, many, workers=workers):
        played += count
        broken += len(found)
        for each in found:
            print(each, flush=True)
        if played % 1_000 == 0 or played == many:
            rate = played / (time.monotonic() - begun) * 60
            print(
                f"seeds {first} to {first + played - 1}: {broken} broken, {rate:.0f} a minute",
                flush=True,
            )


if __name__ == "__main__":
    main()
