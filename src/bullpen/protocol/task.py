"""`tasks/{team}/{id}.json`: one task, and the facts Bullpen keeps in its metadata."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Annotated, Any, Literal, Self, get_args

from bullpen.protocol.agent import Budget
from bullpen.protocol.forge import ForgeWork
from bullpen.protocol.record import OrAbsent, OrDefault, Otherwise, StrictBool, Wire, default, field
from bullpen.protocol.record.promise import Promise, Reliance
from bullpen.protocol.record.review import Review

TaskStatus = Literal["pending", "in_progress", "completed"]


ReadStatus = Annotated[
    Literal["pending", "in_progress", "completed", "unknown"], Otherwise("unknown")
]
"""A status of a newer version reads as "unknown". The JSON object keeps the real one."""

CheckKind = Literal["command", "file", "report", "commit", "review"]
"""`review`: another agent looks at the work and says whether it may be merged."""


Effort = Literal["small", "medium", "large"]

Shape = Literal["solo", "solo+review", "team"]
"""Whether one agent does a task, one agent and a reviewer, or any member of the team."""

MergeState = Literal["queued", "merged", "returned"]

ReturnedFor = Literal["conflict", "checks", "missing", "guarded", "review", "promise", "nothing"]
"""Why work came back: it conflicts with the target, a check fails with it, its commit is in no
repository that can be reached, nobody approved its changes to guarded paths, a review on the forge
asks for changes, or it breaks a promise.
"""

Told = Literal["due", "ran", "failed"]
"""Whether the `after` command was run for this work, and its result."""

STEPS_MAX = 40

STEP_CHARS_MAX = 400
"""How much of the output a step keeps; the owner gets all of it."""

CHECK_SECONDS_MAX = 86_400.0
"""The longest time limit of a check."""

ROUNDS_MAX = 10
"""The most rounds that a review can have before a person is asked."""


class Check(Wire):
    """What must be true before a task may be completed, and what was found."""

    name: str
    kind: CheckKind
    run: str | None = None
    path: str | None = None
    # The branch or commit that is looked for; without one, what the report names.
    ref: str | None = None
    # After this many seconds a command is killed, and has failed.
    timeout_s: float | None = field(default=None, gt=0, le=CHECK_SECONDS_MAX)
    # The driver and the model of a reviewer. For some drivers, `run` says what it is started with.
    by: str | None = None
    model: str | None = None
    # How many times work may come back from its review before a person is asked.
    rounds: int | None = field(default=None, ge=1, le=ROUNDS_MAX)
    # What the reviewer looks for.
    rubric: str | None = None
    # Whether the reviewer may have the driver and the model of the author.
    same_model: StrictBool | None = None
    passed: StrictBool | None = None
    # What was found, or the end of the command's output.
    detail: str | None = None
    attempt: int | None = None
    at_ms: int | None = None

    @property
    def stated(self) -> Self:
        """Return the check without its result."""
        return self.evolve(passed=None, detail=None, attempt=None, at_ms=None)


class Forced(Wire):
    """Who completed a task without its checks, and why."""

    by: str
    reason: str
    at_ms: int


class Step(Wire):
    """One step of the merge queue with some work, in words, and its result."""

    at_ms: int
    what: Literal[
        "queued", "rebased", "conflict", "tested", "bisected", "merged", "returned", "after"
    ]
    # The tasks that were tried together, in order, the target at that time, and their commit.
    batch: list[str] = field(default_factory=list)
    onto: str | None = None
    commit: str | None = None
    passed: bool | None = None
    detail: str | None = None


class Merge(Wire):
    """Work that was handed in with a task. It is a fact of that task."""

    state: MergeState
    # Its place in the queue: work is tried in the order it was handed in.
    order: int
    # What was handed in and its base; a Bullpen ref keeps it.
    commit: str
    base: str
    ref: str
    by: str
    attempt: int
    at_ms: int
    # Its commit on the target. Written before the target moves, so that after a kill it is known to
    # be merged if the target has it.
    candidate: str | None = None
    landed: str | None = None
    told: Told | None = None
    tries: int = 0
    why: ReturnedFor | None = None
    detail: str | None = None
    # The conflicting files.
    files: list[str] = field(default_factory=list)
    # What the queue did with it so far; the oldest steps are dropped.
    steps: OrAbsent[list[Step]] = field(default_factory=list)


class Nudged(Wire):
    """How many times the owner of a task was nudged in one attempt."""

    attempt: int
    times: int
    at_ms: int
    why: str


class Reminded(Wire):
    """How many times a member was reminded of a task in one attempt, of how many at most."""

    by: str
    attempt: int
    times: int
    most: int
    at_ms: int


class Shaped(Wire):
    """How a task is worked on, and why. `is_trial`: to learn the difference to the other way."""

    shape: Shape
    why: str
    is_trial: StrictBool = False


class Facts(Wire):
    """Bullpen's facts, in `metadata`: Claude Code drops unknown top-level keys of a task."""

    attempt: int = 0
    claimed_ms: int | None = None
    lease_until_ms: int | None = None
    # In the order they were given.
    checks: OrDefault[tuple[Check, ...]] = ()
    report: str | None = None
    released: str | None = None
    # Who completed it without its checks, if anybody did.
    forced: Forced | None = None
    # The budget of all who work on it together.
    budget: OrDefault[Budget] = default(lambda: Budget.parse({}))
    # The skills it needs, and its effort.
    needs: list[str] | None = None
    effort: Effort | None = None
    # The backlog entry that it came from.
    source: str | None = None
    # How it is worked on, if that was chosen for it.
    shape: OrAbsent[Shaped | None] = None
    # Who it was taken away from, and why nobody gets it any more.
    tried: list[str] | None = None
    # Who gave it back without finishing it.
    gave_back: list[str] | None = None
    given_up: str | None = None
    # How many times its owner was nudged.
    nudged: Nudged | None = None
    # The last reminder of it that its owner or the lead was given.
    reminded: OrAbsent[Reminded | None] = None
    # The work that was handed in with it, if any was and its record can be read.
    merge: OrAbsent[Merge | None] = None
    # Its work on a forge, if it has any there and its record can be read.
    forge: OrAbsent[ForgeWork | None] = None
    # What its owner promises others while they build on it, and the promises that it builds on.
    promises: OrAbsent[list[Promise] | None] = None
    relies: OrAbsent[list[Reliance] | None] = None
    # What reviewers said about its work, oldest first.
    reviews: OrDefault[tuple[Review, ...]] = ()

    @property
    def nudges(self) -> int:
        """Return how many times its owner was nudged in this attempt."""
        nudged = self.nudged
        return nudged.times if nudged is not None and nudged.attempt == self.attempt else 0


class Task(Wire):
    """One task. `blocks` and `blockedBy` keep completed ids: whether it is blocked is computed."""

    id: str = field(min_length=1)
    subject: str
    description: str
    active_form: str | None = None
    status: ReadStatus = "pending"
    owner: str | None = None
    blocks: list[str] = field(default_factory=list)
    blocked_by: list[str] = field(default_factory=list)
    metadata: dict[str, Any] | None = None

    @cached_property
    def facts(self) -> Facts:
        """Return Bullpen's facts; all defaults for a task that another program created."""
        own = (self.metadata or {}).get("bullpen")
        try:
            return Facts.parse(own) if own is not None else _no_facts()
        except ValueError:
            return _credible(own)

    def evolve(self, **changes: Any) -> Self:
        """Return the task with some fields changed, never to a status that is not known."""
        if changes.get("status") not in (None, *get_args(TaskStatus)):
            raise ValueError(f"status: {changes['status']!r} is not a status")
        return super().evolve(**changes)

    def with_facts(self, **changes: Any) -> Self:
        """Return the task with some of Bullpen's facts changed."""
        facts = self.facts.evolve(**changes)
        return self._evolved(metadata={**(self.metadata or {}), "bullpen": facts.raw})

    @property
    def is_internal(self) -> bool:
        """Return whether it is an internal task that Claude Code 2.1.41 makes for its teammates."""
        return bool((self.metadata or {}).get("_internal"))


@cache
def _no_facts() -> Facts:
    return Facts.new()


def _credible(own: Any) -> Facts:
    """Return the sound fields of damaged facts; damaged checks become one that has not passed."""
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
