"""Measure `git status` on a large checkout: plain, and as Bullpen runs it on agents' trees.

    python benchmarks/git_status.py [--files 50000] [--rounds 15]

Prints the medians in milliseconds and their ratio, which must be at most 1.3.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bullpen.workspace.git.repository import is_changed

TARGET = 1.3
_WORDS = ("status", "--porcelain", "-z", "--no-renames")


def make(folder: Path, files: int) -> Path:
    """Make a repository with so many files in folders of 100, three of them changed."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number in range(files):
        file = folder / f"d{number // 10_000}" / f"e{number // 100}" / f"f{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n", "utf-8")
    who = ("-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0")
    subprocess.run(["git", *who, "add", "."], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "files"], cwd=folder, check=True)
    for number in range(3):
        (folder / "d0" / "e0" / f"f{number}.txt").write_text("changed\n", "utf-8")
    return folder


def plain(folder: Path) -> None:
    """Run status as a person would, without rewriting the index."""
    subprocess.run(
        ["git", "-c", "core.fsmonitor=false", *_WORDS],
        cwd=folder,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def measured(what: Callable[[Path], object], folder: Path) -> float:
    """Return how many milliseconds something takes."""
    start = time.perf_counter()
    what(folder)
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Measure both in turn, so that the load of the machine is the same for both."""
    said = argparse.ArgumentParser()
    said.add_argument("--files", type=int, default=50_000)
    said.add_argument("--rounds", type=int, default=15)
    asked = said.parse_args()
    with tempfile.TemporaryDirectory(prefix="bullpen-status-") as place:
        folder = make(Path(place), asked.files)
        rows = [
            (measured(plain, folder), measured(is_changed, folder)) for _ in range(asked.rounds + 1)
        ]
    before = statistics.median(row[0] for row in rows[1:])
    now = statistics.median(row[1] for row in rows[1:])
    ratio = now / before
    print(f"{asked.files} files: plain {before:.1f} ms, Bullpen's {now:.1f} ms, {ratio:.2f} x")
    raise SystemExit(ratio > TARGET)


if __name__ == "__main__":
    main()
