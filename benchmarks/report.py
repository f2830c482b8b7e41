"""What the benchmarks share: their options, a folder for their files, and how they report."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

import machine
from figures import Row, notes, table, write_rows

Table = Callable[[Sequence[Row]], str]


def options_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(__file__).parent / "results",
        help="where to put the files, on a real disk (default: %(default)s)",
    )
    return parser


def sized_parser(description: str) -> argparse.ArgumentParser:
    """The same for a benchmark that can do less of everything."""
    parser = options_parser(description)
    parser.add_argument("--quick", action="store_true", help="do less of everything")
    parser.add_argument("--smoke", action="store_true", help="do just enough to show that it works")
    return parser


@contextmanager
def scratch(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """A new folder for the files of a benchmark, removed at the end."""
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=options.dir)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def use_bytecode(folder: Path) -> None:
    """Let the processes that are started have bytecode, as an installed program has it."""
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


async def settled_load(*, was_quiet: bool) -> float:
    """The same as `machine.settled_load`, while other tasks go on."""
    return await anyio.to_thread.run_sync(partial(machine.settled_load, was_quiet=was_quiet))


async def measure_in_turn(
    names: Sequence[str], measure: Callable[[str], Awaitable[list[Row]]]
) -> list[Row]:
    """The rows of some measurements, each with the load before it."""
    rows: list[Row] = []
    was_quiet = machine.is_quiet()
    for name in names:
        load = await settled_load(was_quiet=was_quiet)
        begin = time.monotonic()
        rows += [replace(row, load=load) for row in await measure(name)]
        print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return rows


def report(
    options: argparse.Namespace, rows: Sequence[Row], *, shown: Table = table, **more: Any
) -> None:
    """Print the rows, and write them if a file was named."""
    print(f"{shown(rows)}\n\n{notes(rows)}".rstrip())
    if options.json:
        options.dir.mkdir(parents=True, exist_ok=True)
        about = machine.facts(options.dir)
        write_rows(options.json, about, (row.encode() for row in rows), **more)
