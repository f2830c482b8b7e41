"""A team that works while nobody looks: the file it was made from, and what code does meanwhile."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictBool

from bullpen.protocol.wire import Wire

STALL_S = 900.0
"""How long a member may show no progress that nothing else is said about."""


class Origin(Wire):
    """The team file that a team was made from. A fact of the team."""

    file: str
    # The same for two files that describe the same team; tasks and budget do not count.
    digest: str
    # Whether everybody was started and every task added; if not, whoever brings it up goes on.
    complete: StrictBool = False
    # What the file said last of the budget, to see when it says something else.
    budget: dict[str, Any] = Field(default_factory=dict)


class Unattended(Wire):
    """What code does when nobody looks. A fact of the team."""

    # Without anything that counts as progress for so long, a member is reminded of its task.
    stall_s: float = Field(default=STALL_S, gt=0)
    # So often it is reminded before the task goes to somebody else.
    nudges: int = Field(default=1, ge=0)
    # So many times a task is begun in vain before it is given up.
    attempts: int = Field(default=4, ge=1)
    # Times of day, local, at which nobody works, as "22:00-06:30".
    quiet: list[str] = Field(default_factory=list)


class Nudged(Wire):
    """How often the owner of a task was reminded of it by code in one attempt."""

    attempt: int
    times: int
    at_ms: int
    why: str
