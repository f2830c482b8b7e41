"""Measure the NATS store on three servers, beside the bare client, and plan a whole cell.

python benchmarks/fleet.py [--only a,b] [--quick] [--json FILE] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import asdict

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
from figures import Row
from fleet_cell import NODES, PARTITIONS, Cell, cell
from fleet_counts import FULL, QUICK, SMOKE, FleetCounts
from fleet_figures import Costs
from report import measure_in_turn, report, scratch, sized_parser

Measure = Callable[[Cell, FleetCounts, Costs], Awaitable[list[Row]]]

_MEASURES: dict[str, Measure] = {
    "a": fleet_commits.rows,
    "b": fleet_delivery.rows,
    "c": fleet_claims.rows,
    "d": fleet_loading.rows,
    "e": fleet_idle.rows,
    "f": fleet_disk.rows,
}
_PRELOAD = ("anyio._backends._asyncio", "fleet_claims", "fleet_delivery", "fleet_idle")


def main() -> None:
    """Measure, print the tables, and clean up."""
    options = _options()
    counts = SMOKE if options.smoke else QUICK if options.quick else FULL
    crowd.prepare(_PRELOAD)
    costs = Costs()
    with scratch(options, "fleet") as folder:
        for name, fact in machine.facts(folder).items():
            print(f"- {name}: {fact}")
        print(f"- servers: {NODES} on this machine, {PARTITIONS} streams of teams, sync always\n")

        async def measure(name: str) -> list[Row]:
            # Each row has its own servers, so that none pays for what another left behind.
            here = folder / name
            async with cell(here) as servers:
                rows = await _MEASURES[name](servers, counts, costs)
            shutil.rmtree(here)
            return rows

        rows = anyio.run(measure_in_turn, options.only, measure)
    needs = fleet_plan.needs(costs)
    plan = [asdict(need) for need in needs]
    report(options, rows, counts=counts.name, costs=asdict(costs), plan=plan)
    print(f"\n{fleet_plan.table(needs)}")


def _options() -> argparse.Namespace:
    parser = sized_parser("Measure the speed of Bullpen's NATS store.")
    parser.add_argument(
        "--only", type=_names, default=list(_MEASURES), metavar="a,b", help="measure some rows only"
    )
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(_MEASURES):
        raise argparse.ArgumentTypeError(f"no such rows: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
