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
from bullpen.workspace.queue.landing import Target
from bullpen.workspace.queue.tries import Entry
from bullpen.workspace.replaying import Clash, Laid, replay


@dataclass(slots=True)
class Laying:
    """What came of it."""

    entries: list[Entry] = field(default_factory=list)
    clashes: list[tuple[Task, Merge, Clash]] = field(default_factory=list)
    missing: list[tuple[Task, Merge]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def lay(
    git: Git, tasks: Sequence[Task], target: Target, trees: Mapping[str, Workspace], *, inside: str
) -> Laying:
    """Lay the work of tasks on the target, each on those before it, if it can be.

    `trees` are those of the members. Work that contradicts only those before it is left out: with
    whom it is tried is nobody's fault, and it is its turn again when they have landed.

    Raises:
        GitFailed: git cannot do it, for want of room for one; nobody is to blame.
    """
    laying = Laying()
    start = tip = Laid(target.commit, target.commit_tree)
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
        if isinstance(found, Clash) and tip != start:
            found = _laid(git, record, start, tree)
            if not isinstance(found, Clash):
                continue
        if isinstance(found, Clash):
            laying.clashes.append((task, record, found))
            continue
        assert found is not None
        tip = found
        where = inside if tree is None else tree.inside
        laying.entries.append(Entry(task, record, tip.commit, where))
    return laying


class _NotFetched(Unavailable):
    """Work is elsewhere, and not to be had now."""


def _laid(git: Git, record: Merge, onto: Laid, tree: Workspace | None) -> Laid | Clash | None:
    """The tip with a piece of work; None if the work is nowhere."""

    def laid() -> Laid | Clash:
        return replay(
            git, onto=onto.commit, onto_tree=onto.tree, base=record.base, commit=record.commit
        )

    try:
        return laid()
    except GitFailed:
        # Most often it was handed in elsewhere. If it is here, that was not it.
        sources = [tree.repository] if tree is not None and tree.kind == "clone" else []
        try:
            there = have(git, record, sources)
        except Unavailable as error:
            raise _NotFetched(error.message, remedy=error.remedy) from None
        return laid() if there else None
