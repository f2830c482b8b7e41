"""Measure `git status` on a large checkout: plain, and as Bullpen runs it on agents' trees.

    python benchmarks/git_status.py [--files 50000] [--rounds 15]

Both take turns, so that the load of the machine is the same for both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import machine
from bullpen.workspace.git.repository import is_changed
from figures import Row, at_most, milliseconds
from git_scenery import file_name, first_commit, repository, use_git_defaults
from report import options_parser, report, scratch

RATIO_MAX = 1.3
_WORDS = ("status", "--porcelain", "-z", "--no-renames")
_CHANGED = 3


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
    """The seconds that something takes."""
    start = time.perf_counter()
    what(folder)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print a table, and write the figures if requested."""
    parser = options_parser("Compare the status of a large checkout with plain git.")
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    use_git_defaults()
    with scratch(options, "git-status") as folder:
        project = repository(folder / "project", b"".join(first_commit(options.files)))
        for number in range(_CHANGED):
            (project / file_name(number)).write_text("changed\n", "utf-8")
        load = machine.load()
        # The first of each fills the caches.
        pairs = [
            (measured(is_changed, project), measured(plain, project))
            for _ in range(options.rounds + 1)
        ][1:]
    ours, bare = (milliseconds(times) for times in zip(*pairs, strict=True))
    goal = at_most(ours, bare, "plain git", times=RATIO_MAX)
    row = Row(1, f"status of {options.files:,} files", ours, goal, (None, None, bare), load=load)
    report(options, [row])
    sys.exit(1 if row.verdict == "FAIL" else 0)


if __name__ == "__main__":
    main()
