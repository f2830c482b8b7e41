"""What a host finds out about its machine."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.drivers.survey import survey


def found_labels(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the labels that every host has by itself: os, arch, driver, and gpu if it has one.

    A driver is listed if its program is installed; whether it can reach its model is not tried.
    """
    drivers = [each.name for each in survey(environ) if each.missing is None]
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
