"""Which promises of others concern a task: those about its files, and those it relies on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bullpen.protocol.record.promise import Promise
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.promises.path_patterns import overlap
from bullpen.team.promises.rules import Standing


def concerning(task: Task, standing: Sequence[Standing], team: str) -> list[Standing]:
    """Return those of the promises that are of others and concern a task's files, or that it
    relies on.

    Its files are those of its own promises, and those that its text names.
    """
    owner = owner_of(task, team)
    relied = {each.promise for each in task.facts.relies or ()}
    own = [each.path for each in task.facts.promises or () if each.path and not each.withdrawn]
    files = [*own, *_paths_in(f"{task.subject} {task.description}")]
    return [
        each
        for each in standing
        if each.task.id != task.id
        and (owner is None or each.owner != owner)
        and (each.promise.id in relied or _is_about(each.promise, files))
    ]


def _is_about(promise: Promise, files: Sequence[str]) -> bool:
    return promise.path is not None and any(overlap(promise.path, file) for file in files)


def _paths_in(text: str) -> Iterator[str]:
    """Yield the words of a text that look like files: with a slash or an extension."""
    for word in text.split():
        name = word.strip("\"'`.,;:()[]<>!?")
        stem, dot, extension = name.rpartition(".")
        if "://" not in name and ("/" in name.strip("/") or (stem and dot and extension.isalnum())):
            yield name


def promise_words(task: Task) -> tuple[str, ...]:
    """Return what a task promises and relies on, a line each."""
    facts = task.facts
    lines = [
        f"Promises {each.id}: {each.text}{f' (withdrawn: {each.withdrawn})' * bool(each.withdrawn)}"
        for each in facts.promises or ()
    ]
    relied = ", ".join(each.promise for each in facts.relies or ())
    return (*lines, f"Relies on {relied}") if relied else tuple(lines)
