"""What a host finds out about its machine, and about the processes on it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from anyio import to_thread

from bullpen.agents.contracts.installed_parts import installed_parts, why_refused
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.agents.drivers.survey import survey
from bullpen.agents.system import processes
from bullpen.errors import Refused
from bullpen.protocol.agent import ProcessRecord


def found_labels(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the labels that every host has by itself: os, arch, driver, and gpu if it has one.

    A driver is listed if its program or package is installed; whether it can reach its model is not
    tried.
    """
    drivers = [each.name for each in survey(environ) if each.missing is None]
    drivers += [
        part.name for part in installed_parts("driver") if why_refused(part, DRIVERS) is None
    ]
    labels = {
        "os": [platform.system().lower()],
        "arch": [platform.machine().lower()],
        "driver": drivers,
    }
    if Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi", path=environ.get("PATH")):
        labels["gpu"] = ["nvidia"]
    return labels


def free_memory_mb() -> int | None:
    """Return how much memory new processes can have; None if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) // 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    except (OSError, ValueError):
        return None


async def check_place(place: ProcessRecord, nonces: Collection[str]) -> None:
    """Refuse a place that is not on this machine, or is a process of another launch.

    Whoever stops the agent later ends what runs at its place.

    Raises:
        Refused: other_place.
    """
    pid = place.pid
    marked = await to_thread.run_sync(processes.marked)
    mark = None if pid is None else marked.get(pid)
    if (
        place.host != processes.host_name()
        or pid == os.getpid()
        or (mark is not None and mark not in nonces)
    ):
        raise Refused(
            f"Process {pid} on {place.host} does not belong to this launch.",
            reason="other_place",
            remedy="Only an agent on this machine can report its process here.",
        )
