"""Measure the memory and processes of the agents on this machine.

A process belongs to a launch if it was recorded for it, carries its nonce, is in the process group
of such a process, or descends from one. This includes the tool servers of an agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bullpen.agents.system import process_table
from bullpen.agents.system.process_owners import launch_of_each, owners
from bullpen.agents.system.process_table import Process
from bullpen.team.budget.machine_rules import Footprint

_CGROUPS = Path("/sys/fs/cgroup")
_FACTOR_MAX = 5.0


def footprints(mark: str) -> dict[str, Footprint]:
    """The footprint of each launch whose nonce begins with a mark, by nonce. Raises Unavailable."""
    rows = {row.pid: row for row in process_table.table() if row.runs}
    each = launch_of_each(rows.values(), owners(), carried=process_table.marked())
    whose = {pid: nonce for pid, nonce in each.items() if nonce.startswith(mark)}
    _add_groups(rows.values(), whose)
    _add_descendants(rows.values(), whose)
    sizes = process_table.sizes(whose)
    found: dict[str, Footprint] = {}
    for pid, nonce in whose.items():
        had = found.get(nonce, Footprint(0, 0))
        found[nonce] = Footprint(had.bytes + sizes.get(pid, 0), had.processes + 1)
    return found


def _add_groups(rows: Iterable[Process], whose: dict[int, str]) -> None:
    """Add the processes that share a group with a launch, except our own group."""
    rows = list(rows)
    groups = {row.group: whose[row.pid] for row in rows if row.pid in whose}
    groups.pop(os.getpgrp(), None)
    for row in rows:
        if row.group in groups:
            whose.setdefault(row.pid, groups[row.group])


def _add_descendants(rows: Iterable[Process], whose: dict[int, str]) -> None:
    rows = list(rows)
    found = True
    while found:
        new = {
            row.pid: whose[row.parent]
            for row in rows
            if row.pid not in whose and row.parent in whose
        }
        whose.update(new)
        found = bool(new)


def load_factor() -> float:
    """How many times longer things take because more wants to run than there are processors.

    From 1 to 5: a machine that is busier still has to fail at some time.
    """
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return min(max(1.0, load / (os.cpu_count() or 1)), _FACTOR_MAX)


def memory() -> tuple[int, int] | None:
    """Free and total memory in bytes; None if the system does not say.

    It is the smallest of the machine's and of the control groups' of this process.
    """
    found = [each for each in (_of_machine(), *_of_groups()) if each is not None]
    return min(found) if found else None


def _of_machine() -> tuple[int, int] | None:
    text = _read(Path("/proc/meminfo"))
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    try:
        free, total = (int(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    except (KeyError, ValueError, IndexError):
        return None
    return free, total


def _of_groups() -> Iterable[tuple[int, int] | None]:
    """The limits of this process's control groups (cgroup v2), from the innermost."""
    lines = _read(Path("/proc/self/cgroup")).splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return
    folder = _CGROUPS / own.strip("/")
    for each in (folder, *folder.parents):
        if each == _CGROUPS.parent:
            return
        yield _of_group(each)


def _of_group(folder: Path) -> tuple[int, int] | None:
    most, used = (_read(folder / name).strip() for name in ("memory.max", "memory.current"))
    if not (most.isdigit() and used.isdigit()):
        return None
    stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    # The file cache counts as free: the system gives it back when needed.
    kept = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
    return max(0, int(most) - max(0, int(used) - kept)), int(most)


def _read(path: Path) -> str:
    """The text of a system file; empty if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
