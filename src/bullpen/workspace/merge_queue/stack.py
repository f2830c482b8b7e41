"""Rebases the first tasks in the queue on the target, one on top of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.errors import Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.protocol.task import Merge, Task
from bullpen.protocol.team import MergeSettings
from bullpen.team.promises.at_merge import Promised
from bullpen.team.tasks.guarded_rules import Guard, GuardedChange
from bullpen.workspace.git.replay_commits import Clash, Replayed, replay
from bullpen.workspace.git.run_git import Git, GitFailed
from bullpen.workspace.git.task_commits import trailers
from bullpen.workspace.git.tree_changes import tree_changes
from bullpen.workspace.merge_queue.attempts import QueueEntry
from bullpen.workspace.merge_queue.fetch import have
from bullpen.workspace.merge_queue.land import Target
from bullpen.workspace.merge_queue.merge_commit import merge_commit
from bullpen.workspace.merge_queue.tick import Boxes, Ticks, no_boxes


@dataclass(slots=True)
class Stacked:
    """The result: what was rebased, and what could not be."""

    entries: list[QueueEntry] = field(default_factory=list)
    clashes: list[tuple[Task, Merge, Clash]] = field(default_factory=list)
    missing: list[tuple[Task, Merge]] = field(default_factory=list)
    # Work that changes guarded paths in a way that no person approved.
    guarded: list[tuple[Task, Merge, list[GuardedChange]]] = field(default_factory=list)
    # Work that does not fit what members promised each other, and why.
    unkept: list[tuple[Task, Merge, str]] = field(default_factory=list)
    # Work whose changes the target has already, by commits of others.
    nothing: list[tuple[Task, Merge]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # The files in which a box was ticked.
    ticked: set[str] = field(default_factory=set)


def stack_branches(
    git: Git,
    tasks: Sequence[Task],
    target: Target,
    trees: Mapping[str, Workspace],
    *,
    settings: MergeSettings,
    guard: Guard,
    promised: Promised,
    boxes: Boxes = no_boxes,
) -> Stacked:
    """Rebase the work of tasks on the target, each on those before it, if possible.

    `trees` are the members' worktrees. The `guard` is asked about the commits that would be merged,
    whatever was handed in, and so is `promised`. The boxes of the tasks are ticked with their work.
    Work that conflicts only with the work before it is left out, as is work that builds on promised
    work that is not there: that is nobody's fault, and it is tried again when the others are
    merged.

    Raises:
        GitFailed: git fails, for example for lack of space; no work is to blame.
    """
    stacked = Stacked()
    ticks = Ticks(boxes, target.tree, stacked.ticked)
    start = tip = Replayed(target.commit, target.commit_tree)
    for task in tasks:
        record = task.facts.merge
        if record is None or promised.waits_for(task, {each.task.id for each in stacked.entries}):
            continue
        tree = trees.get(record.by)
        try:
            found = _replayed(git, task, record, tip, tree)
        except _NotFetched as error:
            stacked.problems.append(f"#{task.id}: {error}")
            continue
        if found is None:
            stacked.missing.append((task, record))
            continue
        if isinstance(found, Clash) and tip != start:
            found = _replayed(git, task, record, start, tree)
            if not isinstance(found, Clash):
                continue
        if isinstance(found, Clash):
            stacked.clashes.append((task, record, found))
            continue
        assert found is not None
        if found.tree == tip.tree and not is_there(git, record.commit, target.commit):
            # The work before it may be what has the same changes, and may be returned yet.
            if tip == start:
                stacked.nothing.append((task, record))
            continue
        changed = tree_changes(git, tip.commit, found.commit)
        changes = guard.changes(changed)
        if not guard.approves(changes):
            stacked.guarded.append((task, record, changes))
            continue
        unkept = promised.refusal(task, changed)
        if unkept is not None:
            stacked.unkept.append((task, record, unkept))
            continue
        ticked = ticks.tree_with(git, found.tree, task) if found != tip else None
        before = tip.commit
        tip = merge_commit(
            git, found, tip, task=task, agent=record.by, author=settings.author, tree=ticked
        )
        where = settings.inside if tree is None else tree.inside
        stacked.entries.append(QueueEntry(task, record, tip.commit, where, before))
    return stacked


def is_there(git: Git, commit: str, target: str) -> bool:
    """Return whether a target has a commit itself, as when a person merged it."""
    return git.run("merge-base", "--is-ancestor", commit, target).ok


class _NotFetched(Unavailable):
    """The work is elsewhere and cannot be fetched now."""


def _replayed(
    git: Git, task: Task, record: Merge, onto: Replayed, tree: Workspace | None
) -> Replayed | Clash | None:
    """Return the tip with one task's work; None if the work is nowhere."""

    def replayed() -> Replayed | Clash:
        return replay(
            git,
            onto=onto.commit,
            onto_tree=onto.tree,
            base=record.base,
            commit=record.commit,
            closing=trailers(record.by, task.id),
        )

    try:
        return replayed()
    except GitFailed:
        # Most often it was handed in elsewhere. If it is here, that was not the cause.
        sources = [tree.repository] if tree is not None and tree.kind == "clone" else []
        try:
            there = have(git, record, sources)
        except Unavailable as error:
            raise _NotFetched(error.message, remedy=error.remedy) from None
        return replayed() if there else None
