"""Warm starts of the programs of the backend contract, in a folder of their own."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.agents.backends.warm_start.starter import WarmStart
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import processes

MODULE = "support.agents.warm_programs"
_TESTS = Path(__file__).parents[2]


def warm_parents(mark: str) -> list[int]:
    """The warm parents that run and have this in their command line or environment."""
    found = []
    for row in processes.table():
        with suppress(OSError):
            about = Path(f"/proc/{row.pid}")
            words = (about / "cmdline").read_bytes()
            shown = words + (about / "environ").read_bytes()
            if row.runs and b"/bullpen-warm-" in words and os.fsencode(mark) in shown:
                found.append(row.pid)
    return found


def end_warm_parents(mark: str) -> None:
    """Kill the warm parents that have this in their command line or environment."""
    deadline = time.monotonic() + 30
    while found := warm_parents(mark):
        for pid in found:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
                os.kill(pid, signal.SIGKILL)
                # One that has just ended has no command line any more.
                for word in words:
                    if "/bullpen-warm-" in word:
                        _remove_files(word)
                        break
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def _remove_files(socket: str) -> None:
    for path in (socket, f"{socket}.lock"):
        Path(path).unlink(missing_ok=True)


class CountedWarmStart(WarmStart):
    """Remembers what was forked, and what was left to a cold start."""

    def __init__(self, folder: Path, module: str = MODULE) -> None:
        super().__init__(module, folder)
        self.folder = folder
        self.forked: list[int] = []
        self.left: list[Launch] = []

    def start(self, launch: Launch) -> int | None:
        pid = super().start(launch)
        if pid is None:
            self.left.append(launch)
        else:
            self.forked.append(pid)
        return pid

    def environment(self, launch: Launch) -> dict[str, str]:
        """With a path to modules that are not installed."""
        path = os.pathsep.join([str(_TESTS), str(self.folder)])
        return {**super().environment(launch), "PYTHONPATH": path}

    def parents(self) -> list[int]:
        """The warm parents of this folder that run."""
        return warm_parents(f"{self.folder}/")

    def end(self) -> None:
        """Kill the warm parents."""
        end_warm_parents(f"{self.folder}/")
        self.reap()


@contextmanager
def warm_start(module: str = MODULE) -> Iterator[CountedWarmStart]:
    """A warm start whose parents end with the test."""
    # A short path: that of a socket is limited.
    folder = Path(tempfile.mkdtemp(prefix="bullpen-warm-test-", dir="/tmp"))
    warm = CountedWarmStart(folder, module)
    try:
        yield warm
    finally:
        warm.end()
        shutil.rmtree(folder)


@contextmanager
def warm_home(home: Path) -> Iterator[dict[str, str]]:
    """The variables with which agents start warm, from parents that end with the test."""
    try:
        yield {"BULLPEN_WARM_START": "on", "HOME": str(home)}
    finally:
        end_warm_parents(f"HOME={home}")
