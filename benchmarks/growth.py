"""Measure what grows with the number of tasks, members and messages: processor time per operation.

python benchmarks/growth.py [--repeats N] [--only NAME ...] [--json FILE] [--dir FOLDER]

Each column is a team of its own. "New store" is what the first use in a process costs, without the
start of Python. Keyed sends are those with an idempotency key.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio

from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams
from scenery import TEAM

Act = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a team is."""

    name: str
    tasks: int
    members: int
    messages: int


SIZES = (
    Size("T100", 100, 3, 0),
    Size("T1,000", 1_000, 3, 0),
    Size("T10,000", 10_000, 3, 0),
    Size("M50", 10, 50, 0),
    Size("M200", 10, 200, 0),
    Size("N10,000", 10, 50, 10_000),
    Size("N50,000", 10, 50, 50_000),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """The processor milliseconds of one operation."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, seconds: list[float]) -> Spread:
        """Return the spread of some measurements."""
        ms = [each * 1000 for each in seconds]
        return cls(min(ms), median(ms), max(ms))

    def __str__(self) -> str:
        return f"{self.middle:.3g} ({self.low:.3g}-{self.high:.3g})"


def main() -> None:
    """Measure, print the table, and clean up."""
    options = _options()
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=options.dir)).resolve()
    before = os.getloadavg()[0]
    columns: dict[str, dict[str, Spread]] = {}
    try:
        for size in SIZES:
            if size.name in options.only:
                columns[size.name] = anyio.run(_column, folder / size.name, size, options.repeats)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    load = f"{before:.1f} before, {os.getloadavg()[0]:.1f} after"
    print("# Growth of the file store: processor ms, median (lowest-highest)\n")
    print(f"- load: {load}\n- n: {options.repeats}, fsync off\n")
    print(_table(columns))
    if options.json:
        raw = {
            name: {row: [each.low, each.middle, each.high] for row, each in column.items()}
            for name, column in columns.items()
        }
        text = json.dumps({"load": load, "n": options.repeats, "columns": raw}, indent=2)
        options.json.write_text(text, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what grows in Bullpen's file store.")
    parser.add_argument("--repeats", type=int, default=9, help="default: %(default)s")
    names = [size.name for size in SIZES]
    parser.add_argument("--only", choices=names, nargs="+", default=names, metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--dir", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args()


def _table(columns: dict[str, dict[str, Spread]]) -> str:
    rows = list(next(iter(columns.values()), {}))
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[row, *(str(column[row]) for column in columns.values())] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def _column(home: Path, size: Size, repeats: int) -> dict[str, Spread]:
    async with Teams(FileStore(home, fsync=False)) as teams:
        await teams.create(TEAM)
        await _fill(teams.open(TEAM), size)
    # What was just written is read again each time: files may change twice in one tick of a clock.
    await anyio.sleep(0.1)
    found: dict[str, Spread] = {}
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


async def _warm(team: Team, repeats: int) -> dict[str, Spread]:
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
        "claim_next": Spread.of(claims),
        "done": Spread.of(dones),
        "list": await _measured(team.tasks.list, repeats),
        "unread": await _measured(team.mailbox.unread, repeats),
        "snapshot": await _measured(team.snapshot, repeats),
        "events, recent": await _measured(team.recent_events, repeats),
    }


async def _measured(act: Act, repeats: int) -> Spread:
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        await act()
        seconds.append(time.process_time() - begin)
    return Spread.of(seconds)


if __name__ == "__main__":
    main()
