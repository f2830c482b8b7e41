"""Measure every row of the speed target table, side by side with other approaches.

python benchmarks/run.py [--quick] [--json FILE] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

import crowd
import machine
import row_claims
import row_cold
import row_crowds
import row_killed
import row_reader
import row_send
import row_waking
from counts import FULL, QUICK, SMOKE, Counts
from figures import Row
from report import measure_in_turn, report, scratch, sized_parser

Measure = Callable[[Path, Counts], Awaitable[list[Row]]]

_MEASURES: dict[str, Measure] = {
    "send": row_send.rows,
    "crowds": row_crowds.rows,
    "claims": row_claims.rows,
    "reader": row_reader.rows,
    "killed": row_killed.rows,
    "cold": row_cold.rows,
    "waking": row_waking.rows,
}


def main() -> None:
    """Measure, print the table, and clean up."""
    options = _options()
    counts = SMOKE if options.smoke else QUICK if options.quick else FULL
    crowd.prepare()
    with scratch(options, "bench") as folder:
        for name, fact in machine.facts(folder).items():
            print(f"- {name}: {fact}")
        if machine.file_system(folder) == "tmpfs":
            print("- WARNING: fsync does nothing on tmpfs; choose another folder with --dir")

        async def measure(name: str) -> list[Row]:
            here = folder / name
            here.mkdir()
            return await _MEASURES[name](here, counts)

        rows = anyio.run(measure_in_turn, options.only, measure)
    print()
    report(options, rows, counts=counts.name)


def _options() -> argparse.Namespace:
    parser = sized_parser("Measure the speed of Bullpen's file store.")
    parser.add_argument(
        "--only",
        choices=list(_MEASURES),
        nargs="+",
        default=list(_MEASURES),
        help="measure some groups of rows only",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
