"""The machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

_PROBES = 50
_SETTLE_S = 60.0

LOAD_MAX = 4.0
"""With a higher load, times say more about other programs than about ours."""


FACTS = ("cores", "kernel", "file system", "python", "load average", "one call, p50")
"""The names of what `facts` tells."""


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def is_quiet() -> bool:
    """Whether times say something about our programs."""
    return load() <= LOAD_MAX


def settled_load(*, was_quiet: bool) -> float:
    """The load, on a machine that was quiet once our own load has passed, or after a minute."""
    end = time.monotonic() + (_SETTLE_S if was_quiet else 0)
    while not is_quiet() and time.monotonic() < end:
        time.sleep(1.0)
    return load()


def processor_s(pids: Iterable[int]) -> float:
    """The processor time that processes have used, read from outside, so that they stay idle."""
    # The clock of another process, as clock_getcpuclockid(3) names it on Linux.
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def memory_mb(pid: int) -> tuple[float, float]:
    """The private memory of a process, and its share of everything."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1024, kb["Pss"] / 1024


def facts(folder: Path) -> dict[str, str]:
    """The machine and its current load."""
    values = (
        str(os.cpu_count()),
        f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        f"{file_system(folder)} at {folder}",
        f"{platform.python_implementation()} {sys.version.split()[0]}",
        " ".join(f"{load:.2f}" for load in os.getloadavg()),
        ", ".join(f"{name} {took:.0f} us" for name, took in probes(folder)),
    )
    return dict(zip(FACTS, values, strict=True))


def file_system(folder: Path) -> str:
    """The type of the file system that holds a folder; `unknown` where the system hides it."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    best, found = -1, "unknown"
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        point = Path(where.encode().decode("unicode_escape"))
        if folder.resolve().is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), kind
    return found


def probes(folder: Path) -> list[tuple[str, float]]:
    """The cost of the basic system calls, in microseconds.

    They differ a hundredfold between file systems, and even between two runs on one of them.
    """
    file, lock = str(folder / "probe"), str(folder / "probe.lock")

    def create() -> None:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def sync() -> None:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"x" * 1_000)
        os.fsync(fd)
        os.close(fd)

    pairs: tuple[tuple[str, Callable[[], None], Callable[[], None]], ...] = (
        ("create a file", create, lambda: os.unlink(file)),
        ("mkdir", lambda: os.mkdir(lock), lambda: os.rmdir(lock)),
        ("rmdir", lambda: os.rmdir(lock), lambda: os.mkdir(lock)),
        ("write and fsync", sync, lambda: None),
    )
    found = []
    for name, act, undo in pairs:
        if name == "rmdir":
            os.mkdir(lock)
        if name == "write and fsync":
            create()
        found.append((name, median(_times(act, undo)) * 1e6))
    os.unlink(file)
    os.rmdir(lock)
    return found


def _times(act: Callable[[], None], undo: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(_PROBES):
        begin = time.perf_counter()
        act()
        times.append(time.perf_counter() - begin)
        undo()
    return times
