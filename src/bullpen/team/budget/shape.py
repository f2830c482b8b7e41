"""Chooses for each new task: one agent, one agent and a reviewer, or a team. Pure.

A team is quicker only where tasks can be done side by side without touching the same files, and it
pays for that with coordination. What was measured in this repository counts more than these rules
of thumb.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bullpen.protocol.task import Effort, Shape

COSTLY_SHARE = 0.35
"""From this share of a team's cost on, coordination is worth it for large tasks only."""

WIDE = 0.5
"""An interval that is wider than this says too little to choose the cheapest shape."""

_WORD = re.compile(r"[\w./+-]+")


@dataclass(frozen=True, slots=True)
class NewTask:
    """What is known of a task before anybody begins it."""

    key: str
    after: tuple[str, ...] = ()
    effort: Effort | None = None
    # The files of the project that its text names.
    files: frozenset[str] = frozenset()
    # Whether a command decides that it is done.
    is_tested: bool = False
    # Whether a member or a skill was named for it: people have chosen then.
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What one shape did in this repository's evals."""

    # The interval of its pass rate.
    low: float
    high: float
    # Per accepted change; None if nothing was accepted.
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """What is known from before: what coordination cost here, and evals by shape."""

    coordination_share: float | None = None
    evals: Mapping[Shape, Measured] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The shape for a task, and why. `is_trial`: the other one, tried to learn the difference."""

    shape: Shape
    why: str
    is_trial: bool = False


def choose(
    tasks: Sequence[NewTask], past: Past, *, members: int, reviewed: bool, tried: float = 0.0
) -> dict[str, Choice]:
    """Return the choice for each task.

    `members` is how many could work; `reviewed` says whether there is a reviewer. Of the tasks for
    which a team or one agent was chosen, the share `tried` gets the other of the two.
    """
    beside = _beside(tasks)
    by_key = {task.key: task for task in tasks}
    found = {}
    for task in tasks:
        near = [by_key[key] for key in beside[task.key]]
        choice = _measured(past, reviewed=reviewed) or _guessed(task, near, past, reviewed=reviewed)
        if members < 2 and choice.shape == "team":
            choice = Choice(_alone(task, reviewed=reviewed), "the team has one member")
        elif members > 1 and near and not task.is_given and _is_tried(task.key, tried):
            choice = _other(choice)
        found[task.key] = choice
    return found


def files_named(text: str, exists: Callable[[str], bool]) -> frozenset[str]:
    """Return the files of the project that a text names; `exists` knows them."""
    words = (word.strip("./") for word in _WORD.findall(text))
    likely = {word for word in words if "/" in word or "." in word}
    return frozenset(word for word in likely if ".." not in word and exists(word))


def _measured(past: Past, *, reviewed: bool) -> Choice | None:
    """Return the shape that is surely better in evals, else the cheapest that is not surely worse.

    None if evals do not say enough.
    """
    known = {
        shape: seen
        for shape, seen in (past.evals or {}).items()
        if reviewed or shape != "solo+review"
    }
    if len(known) < 2:
        return None
    good = {shape: seen for shape, seen in known.items() if not _is_worse(seen, known.values())}
    for shape, seen in good.items():
        if all(_is_worse(other, [seen]) for name, other in known.items() if name != shape):
            return Choice(
                shape, f"in this repository's evals it passed {_range(seen)}, most of all"
            )
    if any(seen.high - seen.low > WIDE for seen in good.values()):
        return None
    priced = {shape: seen.usd for shape, seen in good.items() if seen.usd is not None}
    if len(priced) < len(good):
        return None
    cheapest = min(priced, key=lambda shape: priced[shape])
    return Choice(
        cheapest,
        f"in this repository's evals none passed surely more, and this is the cheapest:"
        f" ${priced[cheapest]:.2f} per accepted change",
    )


def _is_worse(seen: Measured, others: Iterable[Measured]) -> bool:
    """Return whether one of the others surely passed more."""
    return any(seen.high < other.low for other in others)


def _guessed(task: NewTask, near: Sequence[NewTask], past: Past, *, reviewed: bool) -> Choice:
    if task.is_given:
        return Choice("team", "the task names who does it")
    alone = _alone(task, reviewed=reviewed)
    if not near:
        return Choice(alone, "nothing can be done beside it")
    shared = [each for each in near if task.files & each.files]
    if shared and len(shared) == len(near):
        named = ", ".join(sorted(task.files & shared[0].files)[:2])
        return Choice(alone, f"all that can be done beside it touches {named} too")
    share = past.coordination_share
    if share is not None and share >= COSTLY_SHARE and task.effort != "large":
        return Choice(alone, f"coordination took {share:.0%} of the cost in the run before")
    if task.effort == "small":
        return Choice(alone, "it is small")
    many = "1 other task" if len(near) == 1 else f"{len(near)} other tasks"
    return Choice("team", f"{many} can be done beside it")


def _alone(task: NewTask, *, reviewed: bool) -> Shape:
    """One agent; its work is reviewed where a mistake is likely or would not be seen."""
    return "solo+review" if reviewed and (task.effort == "large" or not task.is_tested) else "solo"


def _other(choice: Choice) -> Choice:
    other: Shape = "solo" if choice.shape == "team" else "team"
    why = f"tried to learn the difference; else {choice.shape}: {choice.why}"
    return replace(choice, shape=other, why=why, is_trial=True)


def _is_tried(key: str, share: float) -> bool:
    """Whether a task is of that share of all. It is the same in every run."""
    mark = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(mark[:4], "big") < share * 2**32


def _beside(tasks: Sequence[NewTask]) -> dict[str, list[str]]:
    """Return for each task those that come neither before nor after it."""
    before = _all_before(tasks)
    after: dict[str, set[str]] = {task.key: set() for task in tasks}
    for key, earlier in before.items():
        for each in earlier:
            after[each].add(key)
    keys = [task.key for task in tasks]
    return {
        key: [
            other
            for other in keys
            if other != key and other not in before[key] and other not in after[key]
        ]
        for key in keys
    }


def _all_before(tasks: Iterable[NewTask]) -> dict[str, set[str]]:
    """Return all that each task waits for, also indirectly. Tasks come after what they wait for."""
    waits = {task.key: task.after for task in tasks}
    found: dict[str, set[str]] = {}
    for start in waits:
        stack = [start]
        while stack:
            key = stack[-1]
            missing = [each for each in waits[key] if each in waits and each not in found]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            direct = {each for each in waits[key] if each in waits}
            found[key] = direct.union(*(found[each] for each in direct))
    return found


def _range(seen: Measured) -> str:
    return f"{seen.low:.0%} to {seen.high:.0%}"
