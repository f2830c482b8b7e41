"""The first of the line on the target, one upon the other, and who could not be laid there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.errors import Unavailable
from bullpen.protocol.merge import Merge, merge_of
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.workspace.git import Git, GitFailed
from bullpen.workspace.queue.fetching import have
from bullpen.workspace.queue.tries import Entry
from bullpen.workspace.replaying import Clash, replay


@dataclass(slots=True)
class Laying:
    """What came of it."""

    entries: list[Entry] = field(default_factory=list)
    clashes: list[tuple[Task, Merge, Clash]] = field(default_factory=list)
    missing: list[tuple[Task, Merge]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def lay(
    git: Git, tasks: Sequence[Task], target: str, trees: Mapping[str, Workspace], *, inside: str
) -> Laying:
    """Lay the work of tasks on the target, each on those before it, if it can be.

    `trees` are those of the members. Work that contradicts only those before it is left out: with
    whom it is tried is nobody's fault, and it is its turn again when they have landed.

    Raises:
        GitFailed: git cannot do it, for want of room for one; nobody is to blame.
    """
    laying = Laying()
    tip = target
    for task in tasks:
        record = merge_of(task)
        if record is None:
            continue
        tree = trees.get(record.by)
        try:
            found = _laid(git, record, tip, tree)
        except _NotFetched as error:
            laying.problems.append(f"#{task.id}: {error}")
            continue
        if found is None:
            laying.missing.append((task, record))
            continue
        if isinstance(found, Clash) and tip != target:
            found = _laid(git, record, target, tree)
            if not isinstance(found, Clash):
                continue
        if isinstance(found, Clash):
            laying.clashes.append((task, record, found))
            continue
        assert found is not None
        tip = found
        laying.entries.append(Entry(task, record, tip, inside if tree is None else tree.inside))
    return laying


class _NotFetched(Unavailable):
    """Work is elsewhere, and not to be had now."""


def _laid(git: Git, record: Merge, onto: str, tree: Workspace | None) -> str | Clash | None:
    """The tip with a piece of work; None if the work is nowhere."""
    try:
        found = replay(git, onto=onto, base=record.base, commit=record.commit)
    except GitFailed:
        # Most often it was handed in elsewhere. If it is here, that was not it.
        sources = [tree.repository] if tree is not None and tree.kind == "clone" else []
        try:
            there = have(git, record, sources)
        except Unavailable as error:
            raise _NotFetched(error.message, remedy=error.remedy) from None
        if not there:
            return None
        found = replay(git, onto=onto, base=record.base, commit=record.commit)
    return found if isinstance(found, Clash) else found.commit
