"""The fleet's rows: ours next to the bare client's, and the costs that the plan is made from."""

from __future__ import annotations

from dataclasses import dataclass

from figures import NO_GOAL, Figure, Goal, Row


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


def fleet_row(
    row: str,
    work: str,
    ours: Figure,
    goal: Goal = NO_GOAL,
    bare: Figure | None = None,
    note: str = "",
) -> Row:
    """One row of the table."""
    return Row(row, work, ours, goal, (None, None, bare), note)


def ratio_of(ours: Figure, bare: Figure) -> str:
    """Our figure as a multiple of the bare client's."""
    return f"{ours.value / bare.value:.2f} x bare"


def beside(goal: Goal, bare: str) -> Goal:
    """A separate target, with the ratio to the bare client as a note."""
    return Goal(goal.target, f"{goal.ratio}, {bare}" if goal.ratio != "-" else bare, goal.verdict)
