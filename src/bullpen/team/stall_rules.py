"""Who comes no further with a task, and what becomes of the task then. Pure.

A task that comes to nothing goes down a ladder: its owner is reminded, then the task goes to
somebody else, at last it is given up with the reason. What happened so far is in the log, so that
whoever watches next goes on where the one before was.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bullpen.protocol.changes import Event, PutTask
from bullpen.protocol.merge import merge_of
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.unattended import Unattended
from bullpen.team.budget_rules import of_task
from bullpen.team.check_rules import is_done, is_unproven
from bullpen.team.fit_rules import lacking
from bullpen.team.lookup import leads, owner_of
from bullpen.team.rules import open_blockers

SAME_MAX = 3
"""So often in a row the same refusal, or the same work, may come back."""

CONFLICT_FACTOR = 3
"""Work that contradicts what others merged meanwhile is nobody's fault: it counts for less, too."""

LOST_FACTOR = 3
"""Attempts that ended with their agent's process count for so much less."""

NOT_READY = "could not be got ready"
"""In the reason of a release: the tree was not to be had, which says nothing about the task."""

NEGLECT_S = 900.0
"""A ready task may lie there for so long at least, while somebody rests who could take it."""

# What differs between two runs of the same command though nothing has changed.
_VOLATILE = re.compile(
    r"\b\d+:\d\d(:\d\d)?(\.\d+)?\b|\b\d+(\.\d+)?\s*(ms|s|sec|secs|seconds?)\b"
    r"|0x[0-9a-f]+|/tmp/\S+|\bpid \d+",
    re.IGNORECASE,
)

Step = Literal["nudge", "relieve", "release", "give_up"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What is to be done about a task, and why, in words for people and for its owner."""

    step: Step
    task: str
    why: str


@dataclass(slots=True)
class Course:
    """How it went with one task so far, by the log."""

    # Attempts that came to nothing, in words; and those that ended with their agent's process.
    in_vain: list[str] = field(default_factory=list)
    lost: int = 0
    gave_back: set[str] = field(default_factory=set)
    # The last refusal to complete it, and how often in a row it was the same.
    refusal: str | None = None
    refusals: int = 0
    # The commits that came back from the merge queue because something was red with them, and how
    # often others were faster.
    returned: list[str] = field(default_factory=list)
    conflicts: int = 0


class Courses:
    """How it went with all tasks of a team, kept up with its log."""

    def __init__(self) -> None:
        self.of: defaultdict[str, Course] = defaultdict(Course)

    def follow(self, events: Iterable[Event]) -> None:
        """Take in what happened next."""
        for event in events:
            for change in event.changes:
                if isinstance(change, PutTask):
                    self._take(event, change.task)

    def _take(self, event: Event, task: Task) -> None:
        course, facts = self.of[task.id], task.facts
        match event.op:
            case "task.claim":
                course.refusal, course.refusals = None, 0
            case "task.check":
                self._refused(course, task)
            case "task.nudge":
                # It is told what comes back; only what comes back after that counts.
                course.refusals = min(course.refusals, 1)
            case "task.relieve":
                course.in_vain.append(facts.released or "it was taken away")
            case "task.release" if event.actor != LEAD and NOT_READY not in (facts.released or ""):
                course.in_vain.append(facts.released or f"{event.actor} gave it back")
                course.gave_back.add(event.actor)
            case "merge.return":
                merge = merge_of(task)
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


def refusal_of(task: Task) -> str | None:
    """What tells the last refusal to complete a task from others; None if there is none.

    Times and addresses in what checks print do not make it another.
    """
    facts = task.facts
    failed = [
        f"{check.name}\n{_VOLATILE.sub('~', check.detail or '')}"
        for check in facts.all_checks
        if check.passed is False and check.attempt == facts.attempt
    ]
    return hashlib.sha256("\0".join(failed).encode()).hexdigest() if failed else None


@dataclass(frozen=True, slots=True)
class Work:
    """One task in progress, as it is seen from outside."""

    task: Task
    owner: str
    # How long nothing that counts as progress was seen; None while that cannot be said.
    still_s: float | None
    # What it does again and again, if it does.
    loop: str | None = None


def looping(course: Course, works: Sequence[str]) -> str | None:
    """What comes back again and again of one task, in words.

    `works` is what tells the contents of the work that came back from others, the last one last.
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
    """What is to be done about a task in progress: nothing while its owner comes further.

    `others` are the members that could take it in its place.
    """
    if len(course.in_vain) >= habits.attempts:
        # It was taken up again before anybody looked.
        return Advice("give_up", work.task.id, _after(habits.attempts, course.in_vain[-1]))
    why = work.loop
    if why is None and work.still_s is not None and work.still_s >= habits.stall_s:
        why = f"there was no sign of progress for {_minutes(work.still_s)}"
    if why is None:
        return None
    facts = work.task.facts
    if facts.nudges < habits.nudges:
        return Advice("nudge", work.task.id, why)
    reason = f"{work.owner} came no further: {why}"
    # This attempt is the last of those that came to nothing.
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
    """What is to be done about a task that nobody has in progress, and that is not done.

    `working` are the members that work, or will again. A lead (`led`) sees to it that somebody
    can do what there is to do.
    """
    if is_unproven(task):
        return Advice("release", task.id, "it was called completed without its checks")
    if task.status != "pending" or task.facts.given_up is not None:
        return None
    if len(course.in_vain) >= habits.attempts:
        return Advice("give_up", task.id, _after(habits.attempts, course.in_vain[-1]))
    if course.lost >= habits.attempts * LOST_FACTOR:
        why = f"{course.lost} attempts ended with the process of whoever had it"
        return Advice("give_up", task.id, why)
    if course.conflicts >= habits.attempts * CONFLICT_FACTOR:
        why = f"its work contradicted what others had merged {course.conflicts} times"
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
        return Advice("release", task.id, f"{owner} does not work any more") if gone else None
    return None if led else _unwanted(task, course, able_to(task, team, working))


def _unwanted(task: Task, course: Course, able: Collection[str]) -> Advice | None:
    """What is to be done about a task that nobody will take."""
    if not able:
        needs = task.facts.needs
        what = f"has {', '.join(map(repr, needs))}" if needs else "is left to take it"
        return Advice("give_up", task.id, f"nobody who works here {what}")
    tried = {*(task.facts.tried or ()), *course.gave_back}
    if tried.issuperset(able):
        last = course.in_vain[-1] if course.in_vain else "it was taken away from all of them"
        return Advice("give_up", task.id, f"everybody who can do it has tried; the last: {last}")
    return None


def neglected(task: Task, seconds: float, habits: Unattended) -> Advice | None:
    """What is to be done about a ready task that nobody takes who could, for so long."""
    if seconds < max(habits.stall_s, NEGLECT_S):
        return None
    why = f"nobody took it for {_minutes(seconds)}, though somebody could have"
    return Advice("give_up" if task.owner is None else "release", task.id, why)


def _dead_blocker(task: Task, tasks: Mapping[str, Task]) -> str | None:
    """Why a task will never be unblocked, if it will not."""
    for blocker in open_blockers(task, tasks.get):
        found = tasks.get(blocker)
        if found is None:
            return f"it waits for #{blocker}, which is not there"
        if found.facts.given_up is not None and not is_done(found):
            return f"it waits for #{blocker}, which was given up"
    return None


def able_to(
    task: Task, team: TeamConfig, working: Collection[str], *, but: Collection[str] = ()
) -> list[str]:
    """Of the members that work, those that take tasks and can do what this one needs."""
    found = []
    for member in team.roster:
        agent = member.agent
        if member.name not in working or member.name in but or agent is None:
            continue
        if agent.asked.claims and not lacking(task, member):
            found.append(member.name)
    return found


def _after(attempts: int, last: str) -> str:
    return f"{attempts} attempts came to nothing; the last: {last}" if attempts > 1 else last


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
