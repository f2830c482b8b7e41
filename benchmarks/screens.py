"""Measure the screens: the first picture in a terminal, the address of the dashboard, and idling.

    python benchmarks/screens.py [--rounds N] [--only small] [--json FILE]

Every figure is processor time of the whole command, a new process each time. The first picture is
there when the terminal has got the name of a member. Idling is measured once the log is read.
"""

from __future__ import annotations

import fcntl
import http.cookiejar
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from pathlib import Path

import anyio

import machine
from bullpen.store.files.store import FileStore
from figures import NO_GOAL, Figure, Goal, Row, below, figure_of
from report import options_parser, report, scratch, use_bytecode
from view import TEAM, make

_WAIT_S = 120.0
_SETTLE_S = 3.0
_IDLE_S = 10.0
_SIZES = {
    "small": (4, 10, 20),
    "10,000 tasks": (4, 10_000, 0),
    "50,000 messages": (50, 100, 50_000),
}
_FIRST_S = {"small": 0.7, "50,000 messages": 1.5}
_IDLE_PERCENT = {"10,000 tasks": 2.0}


async def _make(home: Path, agents: int, tasks: int, messages: int) -> None:
    store = FileStore(home, fsync=False)
    team = await make(store, agents=agents, tasks=tasks, messages=messages)
    # Store the summary of the log beside it, as in a team that was really run.
    await team.events()
    await store.aclose()


def _command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "bullpen", *words, "-t", TEAM]


def first_picture_s(home: Path) -> float:
    """The processor seconds until a terminal shows a member."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "BULLPEN_HOME": str(home)}
        os.execv(sys.executable, _command("tui"))
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        end, seen = time.monotonic() + _WAIT_S, b""
        while b"agent1" not in seen:
            if time.monotonic() > end:
                raise RuntimeError(f"The terminal never showed a member: {seen[-300:]!r}")
            if select.select([terminal], [], [], 0.02)[0]:
                seen += os.read(terminal, 65_536)
        return machine.processor_s([pid])
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def dashboard(home: Path) -> tuple[float, float]:
    """The processor seconds until the address is printed, and the idle share in percent."""
    server = subprocess.Popen(
        _command("web"),
        env={**os.environ, "BULLPEN_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        if not select.select([server.stdout], [], [], _WAIT_S)[0]:
            raise RuntimeError("The dashboard printed no address.")
        address = server.stdout.readline().split()[1]
        there = machine.processor_s([server.pid])
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        urllib.request.build_opener(cookies).open(address, timeout=_WAIT_S).read()
        time.sleep(_SETTLE_S)
        begin, used = time.perf_counter(), machine.processor_s([server.pid])
        time.sleep(_IDLE_S)
        used = machine.processor_s([server.pid]) - used
        return there, used / (time.perf_counter() - begin) * 100
    finally:
        server.kill()
        server.communicate()


def _goal(figure: Figure, limit: float | None) -> Goal:
    return NO_GOAL if limit is None else below(figure, limit)


def measure(folder: Path, size: str, rounds: int) -> list[Row]:
    """The rows of a team of that size."""
    home, load = folder / size.replace(" ", "-"), machine.load()
    anyio.run(_make, home, *_SIZES[size])
    # The first one fills the caches of files and bytecode.
    first = figure_of([first_picture_s(home) for _ in range(rounds + 1)][1:], "s")
    # A dashboard idles for seconds each time.
    looks = max(1, rounds // 2) if size in _IDLE_PERCENT else 1
    boards = [dashboard(home) for _ in range(looks)]
    address = figure_of([there for there, _ in boards], "s")
    idle = figure_of([share for _, share in boards], "% of a core")
    words = {
        "`bullpen tui`: first picture": (first, _FIRST_S.get(size)),
        "`bullpen web`: address": (address, None),
        "`bullpen web`: idle": (idle, _IDLE_PERCENT.get(size)),
    }
    return [
        Row(number, f"{work}, {size}", figure, _goal(figure, limit), load=load)
        for number, (work, (figure, limit)) in enumerate(words.items(), start=1)
    ]


def main() -> None:
    """Measure, print the table, and clean up."""
    parser = options_parser("Measure the screens.")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=list(_SIZES), nargs="+", default=list(_SIZES))
    options = parser.parse_args()
    with scratch(options, "screens") as folder:
        use_bytecode(folder)
        rows = [row for size in options.only for row in measure(folder, size, options.rounds)]
    report(options, rows)


if __name__ == "__main__":
    main()
