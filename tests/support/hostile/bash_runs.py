"""What the real bash does with a command line, seen by programs that record their words."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.permissions.shell.parse import CommandLine, LinePart

_RECORDER = """#!/bin/sh
printf '%s\\0' "${{0##*/}}" "$@" > '{log}'/$$
{then}
"""


@dataclass(frozen=True, slots=True)
class Run:
    """The programs that ran with their words, and the files that came to be."""

    programs: tuple[tuple[str, ...], ...]
    files: frozenset[str]


class Bench:
    """A scratch directory, programs that record, and a bash that finds no others by name."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "cwd"
        self._programs = root / "programs"
        # One file for each program: those that run at the same time would mix their words.
        self._log = root / "log"
        self._env = {"PATH": str(self._programs), "HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}
        for folder in (self.cwd, self._programs, self._log, root / "home"):
            folder.mkdir(parents=True, exist_ok=True)

    def add(self, names: Iterable[str], then: str = "") -> None:
        """Add programs that write down their words, and then do something."""
        for name in names:
            program = self._programs / name
            program.write_text(
                _RECORDER.format(log=self._log, then=then or f"echo {name}"), "utf-8"
            )
            os.chmod(program, 0o755)

    def run(self, command: str) -> Run:
        """Run a command line and wait for all that it started."""
        for record in self._log.iterdir():
            record.unlink()
        before = set(os.listdir(self.cwd))
        # The pipe ends when the last program has ended, also one in the background.
        ended, held = os.pipe()
        shell = subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd=self.cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[held],
        )
        os.close(held)
        with open(ended, "rb") as waiting:
            waiting.read()
        shell.wait(timeout=20)
        return Run(self._recorded(), frozenset(set(os.listdir(self.cwd)) - before))

    def clear(self) -> None:
        """Remove what the commands left in the directory."""
        for entry in os.scandir(self.cwd):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)

    def _recorded(self) -> tuple[tuple[str, ...], ...]:
        records = [record.read_bytes() for record in sorted(self._log.iterdir())]
        return tuple(
            tuple(os.fsdecode(word) for word in each.split(b"\0")[:-1]) for each in records
        )


def unforeseen(line: CommandLine, run: Run) -> str | None:
    """What bash did that the reading of the line did not foresee."""
    for words in run.programs:
        if not any(_foresees(part, words) for part in line.parts):
            return f"it ran {words}"
    targets = [each.target for part in line.parts for each in part.redirects if each.writes]
    for name in sorted(run.files):
        if not any(target.text == name or not target.literal for target in targets):
            return f"it wrote {name}"
    return None


def _foresees(part: LinePart, words: Sequence[str]) -> bool:
    """Whether these can be the words of a part: others than literal ones can be any words."""
    reached = {0}
    for word in part.words:
        if word.literal:
            reached = {at + 1 for at in reached if at < len(words) and words[at] == word.text}
        else:
            reached = set(range(min(reached, default=len(words)), len(words) + 1))
    return len(words) in reached
