"""The fleet's figures: one line each, next to the bare client's where there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from figures import NO_GOAL, Figure, Goal
from machine import LOAD_MAX


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `load` is the load average at the end of the measurement.

    `n` is the number of measurements behind the figure, `spread` how far they lie apart.
    """

    row: str
    work: str
    ours: Figure
    goal: Goal = NO_GOAL
    bare: Figure | None = None
    note: str = ""
    n: int = 1
    spread: str = "-"
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def verdict(self) -> str:
        """Whether the target was reached; a time or rate is not judged on a busy machine."""
        if self.goal.verdict == "-" or self.ours.unit == "" or self.load <= LOAD_MAX:
            return self.goal.verdict
        return f"not judged: load over {LOAD_MAX:g}"

    def encode(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(slots=True)
class Costs:
    """Unit costs for the plan of a whole cell. None where not measured."""

    commit_client_us: float | None = None
    commit_servers_us: float | None = None
    kept_bytes_per_commit: float | None = None
    message_servers_us: float | None = None
    idle_host_kb: float | None = None
    idle_servers_kb: float | None = None
    idle_host_us_per_s: float | None = None
    idle_servers_us_per_s: float | None = None


def ratio_of(ours: Figure, bare: Figure) -> str:
    """Our figure as a multiple of the bare client's."""
    return f"{ours.value / bare.value:.2f} x bare"


def beside(goal: Goal, bare: str) -> Goal:
    """A separate target, with the ratio to the bare client as a note."""
    return Goal(goal.target, f"{goal.ratio}, {bare}" if goal.ratio != "-" else bare, goal.verdict)


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The middle eight tenths of some measurements."""
    low, high = percentile(values, 10), percentile(values, 90)
    return f"{low:,.{digits}f} to {high:,.{digits}f}"


def percentile(values: Sequence[float], percent: float) -> float:
    """The given percentile of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def table(lines: Sequence[Line]) -> str:
    """The lines as a Markdown table."""
    head = ("#", "work", "ours", "bare client", "target", "ratio", "verdict", "load", "n", "spread")
    rows = [" | ".join(head), " | ".join("---" for _ in head)]
    for line in lines:
        bare = "-" if line.bare is None else line.bare.text
        goal = (line.goal.target, line.goal.ratio, line.verdict)
        about = (f"{line.load:.1f}", f"{line.n:,}", line.spread)
        cells = (line.row, line.work, line.ours.text, bare, *goal, *about)
        rows.append(" | ".join(cells))
    return "\n".join(f"| {row} |" for row in rows)


def notes(lines: Sequence[Line]) -> str:
    """The notes of the lines."""
    return "\n".join(f"- {line.row}, {line.work}: {line.note}" for line in lines if line.note)
