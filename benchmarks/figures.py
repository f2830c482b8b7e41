"""Figures, rows with their targets, and the table made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

Unit = Literal["ms", "s", "/s", "us/s", "KB", "% of a core", "per million", "x", ""]
Verdict = Literal["PASS", "FAIL", "-"]

_COLUMNS = ("ours", "peer approach", "rewrite done right", "bare system calls")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit, and a note."""

    value: float
    unit: Unit
    note: str = ""

    @property
    def text(self) -> str:
        """The text for the table."""
        number = f"{self.value:,.0f}" if self.value >= 100 or self.unit == "per million" else ""
        number = number or f"{self.value:.3g}"
        sign = "" if self.unit == "/s" else " "
        return f"{number}{sign}{self.unit}".rstrip() + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of a row, and whether it was reached."""

    target: str
    ratio: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `others` are peer approach, rewrite done right and bare system calls; None, or left out at the
    end, where an approach has no equivalent.
    """

    group: int
    work: str
    ours: Figure
    goal: Goal
    others: Sequence[Figure | None] = ()
    note: str = ""

    @property
    def columns(self) -> list[Figure | None]:
        """Ours and the three others."""
        found = [self.ours, *self.others]
        return found + [None] * (len(_COLUMNS) - len(found))

    def encode(self) -> dict[str, Any]:
        """The row as a JSON object."""
        columns = zip(_COLUMNS, self.columns, strict=True)
        figures = {name: asdict(figure) if figure else None for name, figure in columns}
        goal = asdict(self.goal)
        return {"row": self.group, "work": self.work, **figures, **goal, "note": self.note}


NO_GOAL = Goal("-", "-", "-")


def milliseconds(seconds: Sequence[float], note: str = "") -> Figure:
    """The median of some durations."""
    return Figure(median(seconds) * 1e3, "ms", note)


def at_most(ours: Figure, base: Figure, base_name: str, *, times: float = 1.0) -> Goal:
    """Our figure may be at most this many times another figure of the same run."""
    ratio = ours.value / base.value
    factor = "" if times == 1.0 else f"{times:g} x "
    return Goal(
        f"<= {factor}{base_name}",
        f"{ratio:.2f} x {base_name}",
        "PASS" if ratio <= times else "FAIL",
    )


def below(ours: Figure, limit: float) -> Goal:
    """Our figure must stay below a fixed number."""
    return Goal(
        f"< {Figure(limit, ours.unit).text}",
        f"{ours.value / limit:.2f} x target",
        "PASS" if ours.value < limit else "FAIL",
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
    return Goal("0", "-", "PASS" if ours.value == 0 else "FAIL")


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ("#", "work", *_COLUMNS, "target", "ratio", "verdict")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for row in rows:
        cells = [figure.text if figure else "-" for figure in row.columns]
        goal = (row.goal.target, row.goal.ratio, row.goal.verdict)
        lines.append(" | ".join((str(row.group), row.work, *cells, *goal)))
    return "\n".join(f"| {line} |" for line in lines)


def notes(rows: Sequence[Row]) -> str:
    """The notes of the rows."""
    return "\n".join(f"- Row {row.group}, {row.work}: {row.note}" for row in rows if row.note)
