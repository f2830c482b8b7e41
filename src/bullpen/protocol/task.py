"""`tasks/{team}/{id}.json`: one task, and the facts Bullpen keeps in its metadata."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator

from bullpen.protocol.wire import Wire

TaskStatus = Literal["pending", "in_progress", "completed"]

CheckKind = Literal["command", "file", "report"]


class Check(Wire):
    """What must hold before a task may be completed, and what was found."""

    name: str
    kind: CheckKind
    run: str | None = None
    path: str | None = None
    passed: bool | None = None
    detail: str | None = None
    attempt: int | None = None


class Facts(Wire):
    """Bullpen's own facts about a task, under `metadata.bullpen`.

    They live in the metadata because the real program drops unknown top-level keys of a task
    when it rewrites the file.
    """

    attempt: int = 0
    lease_until_ms: int | None = None
    checks: list[dict[str, Any]] | None = None
    report: str | None = None
    released: str | None = None

    @field_validator("checks")
    @classmethod
    def _every_row_is_a_check(cls, rows: list[dict[str, Any]] | None) -> list[Any] | None:
        for row in rows or ():
            Check.parse(row)
        return rows

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks, in the order they were stated."""
        return tuple(Check.parse(row) for row in self.checks or ())


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
