"""Measure every row of the speed target table, side by side with other approaches.

python benchmarks/run.py [--quick] [--json FILE] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
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
from figures import Row, notes, table, write_rows

_SETTLE_S = 60
Measure = Callable[[Path, Counts], Awaitable[list[Row]]]

_MEASURES: tuple[tuple[str, Measure], ...] = (
    ("send", row_send.rows),
    ("crowds", row_crowds.rows),
    ("claims", row_claims.rows),
    ("reader", row_reader.rows),
    ("killed", row_killed.rows),
    ("cold", row_cold.rows),
    ("waking", row_waking.rows),
)


def main() -> None:
    """Measure, print the table, and clean up."""
    options = _options()
    counts = SMOKE if options.smoke else QUICK if options.quick else FULL
    crowd.prepare()
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.dir)).resolve()
    begin = time.monotonic()
    facts = machine.facts(folder)
    print(f"# Speed of Bullpen's file store ({counts.name} run)\n")
    for name, fact in facts.items():
        print(f"- {name}: {fact}")
    if facts["file system"].startswith("tmpfs"):
        print("- WARNING: fsync does nothing on tmpfs; choose another folder with --dir")
    try:
        rows = anyio.run(_measure_all, folder, counts, options.only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts["measured in"] = f"{time.monotonic() - begin:.0f} s"
    print(f"- measured in: {facts['measured in']}\n\n{table(rows)}\n\n{notes(rows)}")
    if options.json:
        write_rows(options.json, facts, (row.encode() for row in rows), counts=counts.name)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the speed of Bullpen's file store.")
    parser.add_argument("--quick", action="store_true", help="fewer of everything, in 40 s")
    parser.add_argument("--smoke", action="store_true", help="do just enough to show that it works")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(__file__).parent / "results",
        help="where to put the files, on a real disk (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        choices=[name for name, _ in _MEASURES],
        nargs="+",
        default=[name for name, _ in _MEASURES],
        help="measure some groups of rows only",
    )
    return parser.parse_args()


async def _measure_all(folder: Path, counts: Counts, only: list[str]) -> list[Row]:
    rows: list[Row] = []
    is_quiet = machine.load() <= machine.LOAD_MAX
    for name, measure in _MEASURES:
        if name in only:
            load = await _settled_load() if is_quiet else machine.load()
            begin = time.monotonic()
            here = folder / name
            here.mkdir()
            rows += [replace(row, load=load) for row in await measure(here, counts)]
            print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return rows


async def _settled_load() -> float:
    """The load once that of the rows before has passed, or after a minute."""
    for _ in range(_SETTLE_S):
        if machine.load() <= machine.LOAD_MAX:
            break
        await anyio.sleep(1.0)
    return machine.load()


if __name__ == "__main__":
    main()
