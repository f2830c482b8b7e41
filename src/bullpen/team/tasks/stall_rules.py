"""Rules for stalled tasks: nudge, reassign, give up. Pure.

First the owner of a stalled task is nudged, then the task goes to another member, and finally it is
given up with the reason. The log has what happened so far, so any process can continue from there.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bullpen.protocol.changes import DeleteTask, Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig, Unattended
from bullpen.team.budget.rules import of_task
from bullpen.team.lookup import leads, owner_of
from bullpen.team.tasks.check_rules import is_done, is_unproven
from bullpen.team.tasks.fit_rules import lacking
from bullpen.team.tasks.rules import open_blockers

SAME_MAX = 3
"""How many times in a row the same refusal or the same work may come back."""

CONFLICT_FACTOR = 3
"""A conflict with what others merged is nobody's fault, so it counts for less."""

LOST_FACTOR = 3
"""An attempt that ended because its agent's process ended counts for this much less."""

NOT_READY = "could not be got ready"
"""Part of a release's reason: the worktree could not be prepared, which is not the task's fault."""

NEGLECT_S = 900.0
"""How long a ready task may wait at least while an idle member could take it."""

# Differs between two runs of the same command even if nothing changed.
_VOLATILE = re.compile(
    r"\b\d+:\d\d(:\d\d)?(\.\d+)?\b|\b\d+(\.\d+)?\s*(ms|s|sec|secs|seconds?)\b"
    r"|0x[0-9a-f]+|/tmp/\S+|\bpid \d+",
    re.IGNORECASE,
)

Step = Literal["nudge", "relieve", "release", "give_up"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a task, and why, in words for people and for its owner."""

    step: Step
    task: str
    why: str


@dataclass(slots=True)
class Course:
    """The history of one task, from the log."""

    # Failed attempts, in words, and attempts that ended because their agent's process ended.
    in_vain: list[str] = field(default_factory=list)
    lost: int = 0
    gave_back: set[str] = field(default_factory=set)
    # The last refusal to complete it, and how many times in a row it was the same.
    refusal: str | None = None
    refusals: int = 0
    # The commits that came back from the merge queue because a check failed, and how many conflicts
    # there were.
    returned: list[str] = field(default_factory=list)
    conflicts: int = 0


class Courses:
    """The history of all tasks of a team, updated from its log."""

    def __init__(self) -> None:
        self.of: defaultdict[str, Course] = defaultdict(Course)

    def follow(self, events: Iterable[Event]) -> None:
        """Add the next events."""
        for event in events:
            for change in event.changes:
                match change:
                    case PutTask(task):
                        self._take(event, task)
                    case DeleteTask(task_id):
                        self.of.pop(task_id, None)

    def _take(self, event: Event, task: Task) -> None:
        course, facts = self.of[task.id], task.facts
        if event.op == "task.claim" or task.status == "pending":
            # Refusals belong to one attempt: the next owner has had none.
            course.refusal, course.refusals = None, 0
        match event.op:
            case "task.check":
                self._refused(course, task)
            case "task.nudge":
                # The owner is told what came back; only what comes back after that counts.
                course.refusals = min(course.refusals, 1)
            case "task.relieve":
                course.in_vain.append(facts.released or "it was taken away")
            case "task.release" if event.actor != LEAD and NOT_READY not in (facts.released or ""):
                course.in_vain.append(facts.released or f"{event.actor} gave it back")
                course.gave_back.add(event.actor)
            case "merge.return":
                merge = task.facts.merge
                if merge is not None and merge.why == "conflict":
                    course.conflicts += 1
                else:
                    course.in_vain.append(facts.released or "its work came back")
                    course.returned += [] if merge is None else [merge.commit]
            case "task.expire" | "agent.end" if task.status == "pending":
                course.lost += 1
            case "task.retry" | "task.assign":
                self.of[task.id] = Course()

    @staticmethod
    def _refused(course: Course, task: Task) -> None:
        now = refusal_of(task)
        same = now is not None and now == course.refusal
        course.refusals = course.refusals + 1 if same else int(now is not None)
        course.refusal = now


def steady(text: str) -> str:
    """Return a text without what differs between two runs of a command, such as times."""
    return _VOLATILE.sub("~", text)


def refusal_of(task: Task) -> str | None:
    """Return what identifies the last refusal to complete a task, or None.

    Times and addresses in the output of checks make no difference.
    """
    facts = task.facts
    failed = [
        f"{check.name}\n{steady(check.detail or '')}"
        for check in facts.checks
        if check.passed is False and check.attempt == facts.attempt
    ]
    return hashlib.sha256("\0".join(failed).encode()).hexdigest() if failed else None


@dataclass(frozen=True, slots=True)
class Work:
    """A task in progress, seen from outside."""

    task: Task
    owner: str
    # How long there was no progress, or None if unknown.
    still_s: float | None
    # What it repeats, if anything.
    loop: str | None = None


def looping(course: Course, works: Sequence[str]) -> str | None:
    """Return in words what keeps coming back for one task.

    `works` identifies the contents of the work that came back, the last one last.
    """
    if course.refusals >= SAME_MAX:
        return f"its checks failed {course.refusals} times in a row with the same output"
    last = works[-SAME_MAX:]
    if len(last) == SAME_MAX and len(set(last)) == 1:
        return f"the same work came back from the merge queue {SAME_MAX} times in a row"
    return None


def in_progress(
    work: Work, course: Course, habits: Unattended, *, others: Collection[str]
) -> Advice | None:
    """Return what to do about a task in progress: nothing while its owner makes progress.

    `others` are the members that could take it instead.
    """
    if len(course.in_vain) >= habits.attempts:
        # It was claimed again before it was looked at.
        return Advice("give_up", work.task.id, _after(habits.attempts, course.in_vain[-1]))
    why = work.loop
    if why is None and work.still_s is not None and work.still_s >= habits.stall_s:
        why = f"there was no sign of progress for {_minutes(work.still_s)}"
    if why is None:
        return None
    facts = work.task.facts
    if facts.nudges < habits.nudges:
        return Advice("nudge", work.task.id, why)
    reason = f"{work.owner} made no progress: {why}"
    # This attempt is the last of the failed ones.
    if len(course.in_vain) + 1 >= habits.attempts:
        return Advice("give_up", work.task.id, _after(habits.attempts, reason))
    if not others:
        return Advice("give_up", work.task.id, f"{reason}; nobody else can take it")
    return Advice("relieve", work.task.id, reason)


def at_rest(
    task: Task,
    course: Course,
    tasks: Mapping[str, Task],
    team: TeamConfig,
    habits: Unattended,
    *,
    working: Collection[str],
    led: bool,
    works: Sequence[str] = (),
) -> Advice | None:
    """Return what to do about a task that nobody has in progress and that is not done.

    `working` are the members that work or will work again. With a lead (`led`), the lead makes sure
    that somebody can do the tasks.
    """
    if is_unproven(task):
        return Advice("release", task.id, "it was marked completed without its checks")
    if task.status != "pending" or task.facts.given_up is not None:
        return None
    if len(course.in_vain) >= habits.attempts:
        return Advice("give_up", task.id, _after(habits.attempts, course.in_vain[-1]))
    if course.lost >= habits.attempts * LOST_FACTOR:
        why = f"{course.lost} attempts ended because the owner's process ended"
        return Advice("give_up", task.id, why)
    if course.conflicts >= habits.attempts * CONFLICT_FACTOR:
        why = f"its work conflicted with what others had merged {course.conflicts} times"
        return Advice("give_up", task.id, why)
    again = looping(course, works)
    if again is not None:
        return Advice("give_up", task.id, again)
    dead = _dead_blocker(task, tasks)
    if dead is not None:
        return Advice("give_up", task.id, dead)
    reached = of_task(team, task)
    if reached is not None:
        return Advice("give_up", task.id, reached.sentence.rstrip("."))
    owner = owner_of(task, team.name)
    if owner is not None:
        member = team.member(owner)
        ours = member is not None and member.agent is not None and not leads(team, owner)
        gone = ours and owner not in working
        return Advice("release", task.id, f"{owner} no longer works") if gone else None
    return None if led else _unwanted(task, course, able_to(task, team, working))


def _unwanted(task: Task, course: Course, able: Collection[str]) -> Advice | None:
    """Return what to do about a task that nobody will take."""
    if not able:
        needs = task.facts.needs
        what = f"has {', '.join(map(repr, needs))}" if needs else "is left to take it"
        return Advice("give_up", task.id, f"no working member {what}")
    tried = {*(task.facts.tried or ()), *course.gave_back}
    if tried.issuperset(able):
        last = course.in_vain[-1] if course.in_vain else "it was taken away from all of them"
        return Advice(
            "give_up", task.id, f"every member that can do it has tried; the last: {last}"
        )
    return None


def neglected(task: Task, seconds: float, habits: Unattended) -> Advice | None:
    """Return what to do about a ready task that nobody takes although somebody could."""
    if seconds < max(habits.stall_s, NEGLECT_S):
        return None
    why = f"nobody took it for {_minutes(seconds)}, although somebody could have"
    return Advice("give_up" if task.owner is None else "release", task.id, why)


def _dead_blocker(task: Task, tasks: Mapping[str, Task]) -> str | None:
    """Return why a task can never be unblocked, if it cannot."""
    for blocker in open_blockers(task, tasks.get):
        found = tasks.get(blocker)
        if found is None:
            return f"it depends on #{blocker}, which does not exist"
        if found.facts.given_up is not None and not is_done(found):
            return blocked_for_good(blocker)
    return None


def blocked_for_good(blocker: str) -> str:
    """Return why a task is given up whose blocker was given up."""
    return f"it depends on #{blocker}, which was given up"


def able_to(
    task: Task, team: TeamConfig, working: Collection[str], *, but: Collection[str] = ()
) -> list[str]:
    """Return the working members that take tasks and can do this one."""
    found = []
    for member in team.roster:
        agent = member.agent
        if member.name not in working or member.name in but or agent is None:
            continue
        if agent.spec.claims and not lacking(task, member):
            found.append(member.name)
    return found


def _after(attempts: int, last: str) -> str:
    return f"{attempts} attempts failed; the last: {last}" if attempts > 1 else last


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
