"""Measure what grows with the number of tasks, members and messages: processor time per operation.

python benchmarks/growth.py [--repeats N] [--only NAME ...] [--json FILE] [--dir FOLDER]

Each column is a team of its own. "New store" is what the first use in a process costs, without the
start of Python. Keyed sends are those with an idempotency key.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

import machine
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams
from figures import NO_GOAL, Figure, Row, below, milliseconds, spread
from report import options_parser, report, scratch
from scenery import TEAM

Act = Callable[[], Awaitable[object]]
Column = Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a team is."""

    name: str
    tasks: int
    members: int
    messages: int

    def __str__(self) -> str:
        counts = {"tasks": self.tasks, "members": self.members, "messages": self.messages}
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


SIZES = (
    Size("T100", 100, 3, 0),
    Size("T1,000", 1_000, 3, 0),
    Size("T10,000", 10_000, 3, 0),
    Size("M50", 10, 50, 0),
    Size("M200", 10, 200, 0),
    Size("N10,000", 10, 50, 10_000),
    Size("N50,000", 10, 50, 50_000),
)
_GOALS_MS = {
    ("T10,000", "claim_next"): 5.0,
    ("M200", "unread"): 10.0,
    ("M200", "snapshot"): 10.0,
    ("N50,000", "snapshot, new store"): 60.0,
}


def main() -> None:
    """Measure, print the table, and clean up."""
    options = _options()
    columns: dict[str, Column] = {}
    rows: list[Row] = []
    with scratch(options, "growth") as folder:
        for size in SIZES:
            if size.name in options.only:
                load = machine.load()
                column = anyio.run(_column, folder / size.name, size, options.repeats)
                columns[size.name] = column
                rows += _rows(size, column, load)
    print("Processor ms, median (lowest to highest), fsync off.\n")
    report(options, rows, shown=lambda _: _table(columns))


def _options() -> argparse.Namespace:
    parser = options_parser("Measure what grows in Bullpen's file store.")
    parser.add_argument("--repeats", type=int, default=9, help="default: %(default)s")
    names = [size.name for size in SIZES]
    parser.add_argument("--only", choices=names, nargs="+", default=names, metavar="NAME")
    return parser.parse_args()


def _rows(size: Size, column: Column, load: float) -> list[Row]:
    goals = {what: _GOALS_MS.get((size.name, what)) for what in column}
    return [
        Row(
            size.name,
            f"processor time of {what}; {size}",
            figure,
            NO_GOAL if (limit := goals[what]) is None else below(figure, limit),
            load=load,
        )
        for what, figure in column.items()
    ]


def _table(columns: Mapping[str, Column]) -> str:
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    for what in next(iter(columns.values()), {}):
        figures = [column[what] for column in columns.values()]
        lines.append([what, *(f"{each.value:.3g} ({spread(each.spread)})" for each in figures)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def _column(home: Path, size: Size, repeats: int) -> Column:
    async with Teams(FileStore(home, fsync=False)) as teams:
        await teams.create(TEAM)
        await _fill(teams.open(TEAM), size)
    # What was just written is read again each time: files may change twice in one tick of a clock.
    await anyio.sleep(0.1)
    found: dict[str, Figure] = {}
    async with Teams(FileStore(home, fsync=False)) as teams:
        found |= await _warm(teams.open(TEAM), repeats)

    def fresh(act: Callable[[Team], Awaitable[object]]) -> Act:
        async def run() -> None:
            async with Teams(FileStore(home, fsync=False)) as teams:
                await act(teams.open(TEAM))

        return run

    found["list, new store"] = await _measured(fresh(lambda team: team.tasks.list()), repeats)
    found["unread, new store"] = await _measured(fresh(lambda team: team.mailbox.unread()), repeats)
    found["last 20 events, new store"] = await _measured(fresh(_last_events), repeats)
    found["snapshot, new store"] = await _measured(fresh(lambda team: team.snapshot()), repeats)
    return found


async def _last_events(team: Team) -> None:
    await team.events(after=await team.last_seq() - 20)


async def _fill(team: Team, size: Size) -> None:
    names = [f"m{number:03d}" for number in range(size.members - 1)]
    for name in names:
        await team.roster.join(name, by=LEAD)
    for first in range(0, size.tasks, 500):
        numbers = range(first, min(first + 500, size.tasks))
        drafts = [Draft(f"Part {number}: accept the next token", "d" * 200) for number in numbers]
        await team.tasks.add_many(drafts, by=LEAD)
    for number in range(size.messages):
        await team.mailbox.send(names[number % len(names)], "x" * 300, sender=LEAD)


async def _warm(team: Team, repeats: int) -> Column:
    await team.snapshot()
    await team.mailbox.send("m000", "the first", sender=LEAD)
    numbers = iter(range(10 * repeats))
    sends = await _measured(
        lambda: team.mailbox.send("m000", f"y{next(numbers)}", sender=LEAD), repeats
    )
    keyed = await _measured(
        lambda: team.mailbox.send("m000", "z", sender=LEAD, key=f"k{next(numbers)}"), repeats
    )
    claims, dones = [], []
    for _ in range(repeats):
        begin = time.process_time()
        task = await team.tasks.claim_next(by="m000")
        claims.append(time.process_time() - begin)
        if task is None:
            raise RuntimeError("There are fewer tasks than claims to measure.")
        begin = time.process_time()
        await team.tasks.done(task.id, by="m000")
        dones.append(time.process_time() - begin)
    return {
        "send": sends,
        "send, keyed": keyed,
        "claim_next": milliseconds(claims),
        "done": milliseconds(dones),
        "list": await _measured(team.tasks.list, repeats),
        "unread": await _measured(team.mailbox.unread, repeats),
        "snapshot": await _measured(team.snapshot, repeats),
        "events, recent": await _measured(team.recent_events, repeats),
    }


async def _measured(act: Act, repeats: int) -> Figure:
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        await act()
        seconds.append(time.process_time() - begin)
    return milliseconds(seconds)


if __name__ == "__main__":
    main()
