"""Measure the NATS store on three servers, beside the bare client, and plan a whole cell.

python benchmarks/fleet.py [--only a,b] [--quick] [--json FILE] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

import crowd
import fleet_claims
import fleet_commits
import fleet_delivery
import fleet_disk
import fleet_idle
import fleet_loading
import fleet_plan
import machine
from fleet_cell import NODES, PARTITIONS, Cell, cell
from fleet_counts import FULL, QUICK, SMOKE, FleetCounts
from fleet_figures import Costs, Line, notes, table

Measure = Callable[[Cell, FleetCounts, Costs], Awaitable[list[Line]]]

_MEASURES: dict[str, Measure] = {
    "a": fleet_commits.lines,
    "b": fleet_delivery.lines,
    "c": fleet_claims.lines,
    "d": fleet_loading.lines,
    "e": fleet_idle.lines,
    "f": fleet_disk.lines,
}
_PRELOAD = ("anyio._backends._asyncio", "fleet_claims", "fleet_delivery", "fleet_idle")


def main() -> None:
    """Measure, print the tables, and clean up."""
    options = _options()
    counts = SMOKE if options.smoke else QUICK if options.quick else FULL
    crowd.prepare(_PRELOAD)
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=options.dir)).resolve()
    begin = time.monotonic()
    facts = machine.facts(folder)
    facts["servers"] = f"{NODES} on this machine, {PARTITIONS} streams of teams, sync always"
    print(f"# Speed of Bullpen's NATS store ({counts.name} run)\n")
    for name, fact in facts.items():
        print(f"- {name}: {fact}")
    costs = Costs()
    try:
        lines = anyio.run(_measure_all, folder, counts, options.only, costs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts["measured in"] = f"{time.monotonic() - begin:.0f} s"
    print(f"- measured in: {facts['measured in']}\n\n{table(lines)}\n\n{notes(lines)}\n")
    needs = fleet_plan.needs(costs)
    print(fleet_plan.table(needs))
    if options.json:
        raw = {
            "counts": counts.name,
            "machine": facts,
            "lines": [line.encode() for line in lines],
            "costs": asdict(costs),
            "plan": [asdict(need) for need in needs],
        }
        options.json.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the speed of Bullpen's NATS store.")
    parser.add_argument("--quick", action="store_true", help="fewer of everything, in 90 s")
    parser.add_argument("--smoke", action="store_true", help="do just enough to show that it works")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(__file__).parent / "results",
        help="where the servers keep their files, on a real disk (default: %(default)s)",
    )
    parser.add_argument(
        "--only", type=_rows, default=list(_MEASURES), metavar="a,b", help="measure some rows only"
    )
    return parser.parse_args()


def _rows(text: str) -> list[str]:
    rows = text.split(",")
    if unknown := set(rows) - set(_MEASURES):
        raise argparse.ArgumentTypeError(f"no such rows: {', '.join(sorted(unknown))}")
    return rows


async def _measure_all(
    folder: Path, counts: FleetCounts, only: Sequence[str], costs: Costs
) -> list[Line]:
    lines: list[Line] = []
    for name, measure in _MEASURES.items():
        if name not in only:
            continue
        begin = time.monotonic()
        # Each row has its own servers, so that none pays for what another left behind.
        here = folder / name
        async with cell(here) as servers:
            lines += await measure(servers, counts, costs)
        shutil.rmtree(here)
        load = os.getloadavg()[0]
        print(f"{name}: {time.monotonic() - begin:.1f} s, load {load:.1f}", file=sys.stderr)
    return lines


if __name__ == "__main__":
    main()
