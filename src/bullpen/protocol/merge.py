"""Bringing work together: what a task handed in, and how its way to the target went."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from bullpen.protocol.task import Check, Task
from bullpen.protocol.wire import Wire

MergeState = Literal["queued", "merged", "returned"]

ReturnedFor = Literal["conflict", "checks", "missing"]
"""Why work came back: it contradicts what is on the target, something is red with it, or its
commit is in no repository that can be reached."""

Told = Literal["due", "ran", "failed"]
"""Whether the command `after` a landing was run for this work, and how that went."""

STEPS_MAX = 40

STEP_CHARS_MAX = 400
"""So much of what was found is kept in a step; the whole of it goes to the owner."""


class Step(Wire):
    """One thing that the queue did with a piece of work, in words, and how it went."""

    at_ms: int
    what: Literal[
        "queued", "rebased", "conflict", "tested", "bisected", "merged", "returned", "after"
    ]
    # The tasks that were tried together, in order, the target then, and what came of them.
    batch: list[str] = Field(default_factory=list)
    onto: str | None = None
    commit: str | None = None
    passed: bool | None = None
    detail: str | None = None


class Merge(Wire):
    """Work that was handed in with a task. It is a fact of that task."""

    state: MergeState
    # Its place in line: what was handed in first is tried first.
    order: int
    # What was handed in and what that began at; a ref of ours keeps it.
    commit: str
    base: str
    ref: str
    by: str
    attempt: int
    at_ms: int
    # What it became on the target. Written before the target moves, so that after a kill it is
    # known for merged if the target has it.
    candidate: str | None = None
    landed: str | None = None
    told: Told | None = None
    tries: int = 0
    why: ReturnedFor | None = None
    detail: str | None = None
    # The files that contradict each other.
    files: list[str] = Field(default_factory=list)
    steps: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def history(self) -> list[Step]:
        """What the queue did with it so far; the oldest steps are dropped."""
        return [Step.parse(row) for row in self.steps]


class MergeSettings(Wire):
    """How the work of a team is brought together. A fact of the team."""

    # The top of the tree of the user, and below that where the gate and the commands are run.
    repository: str
    inside: str = ""
    target: str
    # What must hold on the target after each step, beside the tasks' own checks.
    gate: list[dict[str, Any]] = Field(default_factory=list)
    # So many are tried together; if they fail together, the one that is to blame is looked for.
    batch: int = Field(default=4, ge=1, le=64)
    # So often what failed is tried again before it goes back to its owner.
    retries: int = Field(default=1, ge=0, le=10)
    # A command that is run after the target moved, to push or to open a pull request.
    after: str | None = None
    setup: str | None = None

    @field_validator("gate")
    @classmethod
    def _every_row_is_a_check(cls, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in rows:
            Check.parse(row)
        return rows

    @property
    def checks(self) -> list[Check]:
        """The gate."""
        return [Check.parse(row) for row in self.gate]


def merge_of(task: Task) -> Merge | None:
    """The work that was handed in with a task, if any was and its record can be read."""
    row = task.facts.merge
    try:
        return None if row is None else Merge.parse(row)
    except ValueError:
        return None
