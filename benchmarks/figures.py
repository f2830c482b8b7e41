"""Figures, rows with their targets, and the table made from them.

Every row says how often it was measured, its lowest and highest figure, and the machine's load.
On a busy machine a time is printed and not judged; a count of faults is judged always.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from machine import LOAD_MAX, load

Unit = Literal[
    "ms",
    "s",
    "/s",
    "us/s",
    "KB",
    "MB",
    "GB a day",
    "bytes",
    "tokens",
    "% of a core",
    "%",
    "per million",
    "x bare",
    "",
]
Verdict = Literal["PASS", "FAIL", "-"]

_COLUMNS = ("ours", "peer approach", "rewrite done right", "bare")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit and a note; how often it was measured, and between what."""

    value: float
    unit: Unit
    note: str = ""
    n: int = 1
    spread: tuple[float, float] | None = None

    @property
    def text(self) -> str:
        """The text for the table."""
        number = f"{self.value:,.0f}" if self.value >= 100 or self.unit == "per million" else ""
        number = number or f"{self.value:.3g}"
        sign = "" if self.unit == "/s" else " "
        return f"{number}{sign}{self.unit}".rstrip() + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of a row, and whether it was reached. Some can be judged at any load."""

    target: str
    ratio: str
    verdict: Verdict
    at_any_load: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `others` are peer approach, rewrite done right and bare system calls or client; None, or left
    out at the end, where an approach has no equivalent.
    """

    group: int | str
    work: str
    ours: Figure
    goal: Goal
    others: Sequence[Figure | None] = ()
    note: str = ""
    # The load of the machine before the measurement, which is a load itself.
    load: float = field(default_factory=load)

    @property
    def verdict(self) -> str:
        return judged(self.goal, self.load)

    @property
    def columns(self) -> list[Figure | None]:
        """Ours and the three others."""
        found = [self.ours, *self.others]
        return found + [None] * (len(_COLUMNS) - len(found))

    def encode(self) -> dict[str, Any]:
        """The row as a JSON object."""
        columns = zip(_COLUMNS, self.columns, strict=True)
        figures = {name: asdict(figure) if figure else None for name, figure in columns}
        common = measured(self.work, self.ours, self.load, self.goal)
        return {"row": self.group, **common, **figures, "ratio": self.goal.ratio, "note": self.note}


def measured(name: str, figure: Figure, load: float, goal: Goal | None = None) -> dict[str, Any]:
    """What every row of every benchmark has in its JSON file."""
    goal = goal or NO_GOAL
    return {
        "name": name,
        "unit": figure.unit,
        "figure": figure.value,
        "n": figure.n,
        "spread": figure.spread,
        "load": load,
        "goal": goal.target,
        "verdict": judged(goal, load),
    }


def write_rows(
    path: Path, about: Mapping[str, str], rows: Iterable[Mapping[str, Any]], **more: Any
) -> None:
    """Write the rows of a benchmark to a JSON file, as `page.py` reads them."""
    raw = {"machine": dict(about), **more, "rows": list(rows)}
    path.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8")


def judged(goal: Goal, load: float) -> str:
    """The verdict; none about the speed of a busy machine."""
    if goal.verdict == "-" or goal.at_any_load or load <= LOAD_MAX:
        return goal.verdict
    return f"not judged: load {load:.1f}"


def figure_of(
    values: Sequence[float],
    unit: Unit,
    note: str = "",
    *,
    pick: Callable[[Sequence[float]], float] = median,
) -> Figure:
    """One of several values, by default their median, with their spread."""
    return Figure(pick(values), unit, note, len(values), (min(values), max(values)))


NO_GOAL = Goal("-", "-", "-")


def milliseconds(seconds: Sequence[float], note: str = "") -> Figure:
    """The median of some durations."""
    return figure_of([each * 1e3 for each in seconds], "ms", note)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def at_most(ours: Figure, base: Figure, base_name: str, *, times: float = 1.0) -> Goal:
    """Our figure may be at most this many times another figure of the same run."""
    ratio = ours.value / base.value
    factor = "" if times == 1.0 else f"{times:g} x "
    return Goal(
        f"<= {factor}{base_name}",
        f"{ratio:.2f} x {base_name}",
        "PASS" if ratio <= times else "FAIL",
    )


def below(ours: Figure, limit: float, *, at_any_load: bool = False) -> Goal:
    """Our figure must stay below a fixed number."""
    return Goal(
        f"< {Figure(limit, ours.unit).text}",
        f"{ours.value / limit:.2f} x target",
        "PASS" if ours.value < limit else "FAIL",
        at_any_load,
    )


def at_least(ours: Figure, limit: float) -> Goal:
    """Our figure must reach a fixed number."""
    return Goal(
        f">= {Figure(limit, ours.unit).text}",
        f"{ours.value / limit:.2f} x target",
        "PASS" if ours.value >= limit else "FAIL",
    )


def none_at_all(ours: Figure) -> Goal:
    """Our figure must be zero."""
    return Goal("0", "-", "PASS" if ours.value == 0 else "FAIL", at_any_load=True)


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    used = [at for at in range(len(_COLUMNS)) if any(row.columns[at] for row in rows)]
    names = [_COLUMNS[at] for at in used]
    head = ("#", "work", *names, "target", "ratio", "verdict", "n", "spread", "load")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for row in rows:
        cells = [figure.text if (figure := row.columns[at]) else "-" for at in used]
        goal = (row.goal.target, row.goal.ratio, row.verdict)
        about = (str(row.ours.n), spread(row.ours.spread), f"{row.load:.1f}")
        lines.append(" | ".join((str(row.group), row.work, *cells, *goal, *about)))
    return "\n".join(f"| {line} |" for line in lines)


def spread(found: Sequence[float] | None) -> str:
    """The lowest and the highest of several figures."""
    return "-" if found is None else f"{Figure(found[0], '').text} to {Figure(found[1], '').text}"


def notes(rows: Sequence[Row]) -> str:
    """The notes of the rows."""
    return "\n".join(f"- Row {row.group}, {row.work}: {row.note}" for row in rows if row.note)
