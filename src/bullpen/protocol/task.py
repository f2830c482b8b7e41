"""`tasks/{team}/{id}.json`: one task, and the facts Bullpen keeps in its metadata."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, StrictBool, field_validator

from bullpen.protocol.budget import Budget
from bullpen.protocol.unattended import Nudged
from bullpen.protocol.wire import Wire

TaskStatus = Literal["pending", "in_progress", "completed"]

CheckKind = Literal["command", "file", "report", "commit"]


Effort = Literal["small", "medium", "large"]

CHECK_SECONDS_MAX = 86_400.0
"""How long a check may be allowed to take."""


class Check(Wire):
    """What must hold before a task may be completed, and what was found."""

    name: str
    kind: CheckKind
    run: str | None = None
    path: str | None = None
    # The branch or commit that is looked for; without one, what the report names.
    ref: str | None = None
    # After so many seconds a command is ended, and has failed.
    timeout_s: float | None = Field(default=None, gt=0, le=CHECK_SECONDS_MAX)
    passed: StrictBool | None = None
    # What was found, or the end of what the command printed.
    detail: str | None = None
    attempt: int | None = None
    at_ms: int | None = None

    @property
    def stated(self) -> Self:
        """The check alone, without what was found."""
        return self.evolve(passed=None, detail=None, attempt=None, at_ms=None)


class Forced(Wire):
    """The word of whoever completed a task without its checks."""

    by: str
    reason: str
    at_ms: int


class Facts(Wire):
    """Bullpen's own facts about a task, under `metadata.bullpen`.

    They live in the metadata because the real program drops unknown top-level keys of a task
    when it rewrites the file.
    """

    attempt: int = 0
    claimed_ms: int | None = None
    lease_until_ms: int | None = None
    checks: list[dict[str, Any]] | None = None
    report: str | None = None
    released: str | None = None
    forced: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None
    # What whoever takes it must be able to do, and how much work it seems to be.
    needs: list[str] | None = None
    effort: Effort | None = None
    # The entry of a backlog that it came from.
    source: str | None = None
    # Who was relieved of it, and why nobody gets it any more.
    tried: list[str] | None = None
    given_up: str | None = None
    # How often its owner was reminded of it by code: see `protocol.unattended`.
    nudged: dict[str, Any] | None = None
    # The work that was handed in with it: see `protocol.merge`.
    merge: dict[str, Any] | None = None

    @field_validator("budget")
    @classmethod
    def _is_a_budget(cls, row: dict[str, Any] | None) -> dict[str, Any] | None:
        Budget.parse(row or {})
        return row

    @property
    def cap(self) -> Budget:
        """What may be used for it at most, by all who work on it together."""
        return Budget.parse(self.budget or {})

    @field_validator("nudged")
    @classmethod
    def _counts(cls, row: dict[str, Any] | None) -> dict[str, Any] | None:
        if row is not None:
            Nudged.parse(row)
        return row

    @property
    def nudges(self) -> int:
        """How often its owner was reminded of it by code in this attempt."""
        nudged = None if self.nudged is None else Nudged.parse(self.nudged)
        return nudged.times if nudged is not None and nudged.attempt == self.attempt else 0

    @field_validator("checks")
    @classmethod
    def _every_row_is_a_check(cls, rows: list[dict[str, Any]] | None) -> list[Any] | None:
        for row in rows or ():
            Check.parse(row)
        return rows

    @field_validator("forced")
    @classmethod
    def _names_somebody(cls, row: dict[str, Any] | None) -> dict[str, Any] | None:
        if row is not None:
            Forced.parse(row)
        return row

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks, in the order they were stated."""
        return tuple(Check.parse(row) for row in self.checks or ())

    @property
    def word(self) -> Forced | None:
        """Whose word completed it without its checks, if somebody's did."""
        return None if self.forced is None else Forced.parse(self.forced)


class Task(Wire):
    """One task. `blocks` and `blockedBy` keep completed ids: being blocked is derived."""

    id: str = Field(min_length=1)
    subject: str
    description: str
    active_form: str | None = None
    status: TaskStatus = "pending"
    owner: str | None = None
    blocks: list[str] = Field(default_factory=list)
    blocked_by: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] | None = None

    @property
    def facts(self) -> Facts:
        """Bullpen's facts; all at their defaults for a task another program made."""
        own = (self.metadata or {}).get("bullpen")
        try:
            return Facts.parse(own) if own is not None else Facts.new()
        except ValueError:
            return _credible(own)

    def with_facts(self, **changes: Any) -> Self:
        """The task with some of Bullpen's facts changed."""
        facts = self.facts.evolve(**changes)
        return self._evolved(metadata={**(self.metadata or {}), "bullpen": facts.raw})

    @property
    def is_internal(self) -> bool:
        """Whether it is one of the bookkeeping tasks version 2.1.41 makes for its teammates."""
        return bool((self.metadata or {}).get("_internal"))


def _credible(own: Any) -> Facts:
    """What can be believed of damaged facts, field by field.

    Damaged checks become one that has not passed: damage must not complete a task.
    """
    credible: dict[str, Any] = {}
    for key, value in own.items() if isinstance(own, dict) else ():
        try:
            Facts.parse({key: value})
        except ValueError:
            if key == "checks":
                credible[key] = [{"name": "damaged checks", "kind": "command"}]
        else:
            credible[key] = value
    return Facts.parse(credible)
