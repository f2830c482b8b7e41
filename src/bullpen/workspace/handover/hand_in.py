"""An agent's worktree between tasks: update it to the target, and hand in its work.

Called only by the agent's runner, from a thread: it blocks.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.team.promises.at_merge import Promised, refuse_touched
from bullpen.team.tasks.guarded_rules import Guard, GuardedChange, TreeChange, named
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.workspace.git.ref_names import task_ref
from bullpen.workspace.git.replay_commits import Clash, replay
from bullpen.workspace.git.run_git import TREE_S, Git
from bullpen.workspace.git.tree_changes import diff_text, tree_changes
from bullpen.workspace.handover import begin_task, commit_work
from bullpen.workspace.trees.current_task import At, at_of, put_at

_DIFF_CHARS_MAX = 12_000
"""How much of a difference is shown in a request."""
_IS_BARE = ("rev-parse", "--is-bare-repository")


@dataclass(frozen=True, slots=True)
class Handed:
    """What was handed in, and the files that Bullpen committed for it."""

    work: HandIn
    committed: list[str]


def begin(
    workspace: Workspace, task: Task, settings: MergeSettings, *, team: str, agent: str
) -> str | None:
    """Bring an agent's own worktree to the newest target, for a task that it claimed.

    Anything that exists only there is saved first. Work that was handed in for the task before is
    rebased on the target. A worktree that is already at this task is not changed. Returns what the
    agent must know.

    Raises:
        Refused: no_target, or anything that saving refuses: then nothing was changed.
        Unavailable: git fails, or a file cannot be used.
    """
    if workspace.kind == "shared":
        return None
    with _told(workspace):
        git = Git(Path(workspace.path))
        before = at_of(git, team, agent)
        earlier = _earlier(git, task, workspace, team=team)
        if before is not None and before.task == task.id:
            if before.attempt == task.facts.attempt:
                return None
            if earlier is None or before.attempt > _attempt_of(earlier.ref):
                put_at(git, team, agent, before.evolve(attempt=task.facts.attempt))
                return "Your worktree still holds your earlier work on this task."
        target_ref, target = begin_task.target_of(git, workspace, settings.target)
        last = None if before is None else before.task
        why = f"before task {task.id}"
        notes = [begin_task.saved(git, target, team=team, agent=agent, task=last, why=why)]
        marks: list[str] = []
        if earlier is None:
            begin_task.switch(git, workspace, target, team=team, agent=agent)
        else:
            base = earlier.base or git("merge-base", earlier.commit, target)
            laid = replay(git, onto=target, base=base, commit=earlier.commit)
            start = target if isinstance(laid, Clash) else laid.commit
            begin_task.switch(git, workspace, start, team=team, agent=agent)
            if isinstance(laid, Clash):
                mixed = begin_task.mix(git, HandIn(earlier.commit, base, earlier.ref), target, task)
                notes.append(mixed.note)
                marks = mixed.marks
            else:
                notes.append(
                    "Your worktree holds the work that was handed in for this task before "
                    f"({earlier.commit[:12]}), on top of the newest {settings.target}."
                )
        notes.append(begin_task.bring_modules(git, workspace))
        at = At.new(
            task=task.id, attempt=task.facts.attempt, base=target, target=target_ref, marks=marks
        )
        put_at(git, team, agent, at)
        return "\n".join(note for note in notes if note) or None


class NeedsPerson(Refused):
    """Work that changes guarded paths in a way that no person has approved. It is kept by a ref."""

    def __init__(self, changes: list[GuardedChange], *, diff: str, look: str) -> None:
        super().__init__(
            f"The work changes files that other programs run or obey: {named(changes)}.",
            reason="guarded_paths",
            remedy="Undo these changes, or ask a person to approve them.",
        )
        self.changes = changes
        self.diff = diff
        # How a person can look at the whole difference.
        self.look = look


def hand_in(
    workspace: Workspace,
    task: Task,
    *,
    team: str,
    agent: str,
    author: str | None = None,
    guard: Guard | None = None,
    promised: Promised | None = None,
) -> Handed | None:
    """Hand in what a worktree has beyond the target; None if there is nothing.

    Uncommitted changes are committed here; without `author`, by the one that git is configured
    with. A Bullpen ref keeps the work, also in the repository that a clone came from. `guard` says
    which changes need approval, and which have it; `promised`, which paths others keep to
    themselves.

    Raises:
        Refused: conflict_markers, detached_or_rebase, nested_repository, submodule_changed or
            tree_elsewhere, or promised_path.
        NeedsPerson: it changes guarded paths without approval; a later attempt finds the work.
        GitFailed: git fails, for example because a push was refused.
        Unavailable: a file cannot be used.
    """
    if workspace.kind == "shared":
        return None
    with _told(workspace):
        git = Git(Path(workspace.path))
        at = at_of(git, team, agent)
        _refuse_elsewhere(at, task)
        commit_work.refuse_unfinished(git, workspace)
        commit_work.refuse_marks(git.where, [] if at is None else at.marks)
        commit_work.refuse_dirty_modules(git)
        committed = commit_work.commit_all(git, task, agent=agent, author=author)
        head = git("rev-parse", "HEAD")
        base = commit_work.base_of(git, workspace, at, head)
        if git("rev-parse", f"{base}^{{tree}}") == git("rev-parse", f"{head}^{{tree}}"):
            return None
        commit_work.refuse_lost_modules(git, base, head)
        ref = task_ref(team, task.id, task.facts.attempt)
        git("update-ref", "-m", f"bullpen: hand in #{task.id}", ref, head)
        if workspace.kind == "clone":
            _give(git, workspace.repository, head, ref)
        changes = tree_changes(git, base, head)
        refuse_touched(task, promised or Promised(), changes)
        _refuse_guarded(git, workspace, base, head, changes, guard or Guard())
        return Handed(HandIn(head, base, ref), committed)


def _refuse_guarded(
    git: Git,
    workspace: Workspace,
    base: str,
    head: str,
    changed: list[TreeChange],
    guard: Guard,
) -> None:
    """Refuse changes to guarded paths that no person approved. Raises NeedsPerson."""
    changes = guard.changes(changed)
    if guard.approves(changes):
        return
    paths = list(dict.fromkeys(change.path for change in changes))
    diff = diff_text(git, base, head, paths)
    if len(diff) > _DIFF_CHARS_MAX:
        diff = f"{diff[:_DIFF_CHARS_MAX]}\n[... cut; the command below shows all of it]"
    # A clone may come from another machine.
    where = workspace.path if workspace.kind == "clone" else workspace.repository
    look = ["git", "-C", where, "diff", f"{base}..{head}", "--", *paths]
    raise NeedsPerson(changes, diff=diff, look=shlex.join(look))


def _give(git: Git, source: str, head: str, ref: str) -> None:
    """Put work into the repository that a clone came from."""
    # A bare repository is a server: what it accepts is up to its hooks, as with any server.
    if not os.path.isabs(source) or Git(Path(source))(*_IS_BARE) == "true":
        git("push", "--quiet", "--no-verify", "origin", f"+{head}:{ref}", seconds=TREE_S)
        return
    # A push would start git in that repository, with all its hooks.
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
    Git(Path(source))(*words, str(git.where), f"+{ref}:{ref}", seconds=TREE_S)


@contextmanager
def _told(workspace: Workspace) -> Iterator[None]:
    """Turn errors about files into Unavailable."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{error.filename or workspace.path} cannot be used: {error.strerror or error}.",
            remedy="Check that file and the free disk space, then try again.",
        ) from None


def _earlier(git: Git, task: Task, workspace: Workspace, *, team: str) -> HandIn | None:
    """Return the newest work that was handed in for a task, even if that was never recorded.

    In that case its base is unknown.
    """
    folder = task_ref(team, task.id, 0).rpartition("/")[0]
    if workspace.kind == "clone":
        # Another host may have handed it in.
        git("fetch", "--quiet", "--no-tags", "origin", f"+{folder}/*:{folder}/*", seconds=TREE_S)
    out = git("for-each-ref", "--format=%(refname) %(objectname)", folder)
    commits = dict(line.split(" ", 1) for line in out.splitlines())
    older = [ref for ref in commits if _attempt_of(ref) < task.facts.attempt]
    if not older:
        return None
    ref = max(older, key=_attempt_of)
    record = task.facts.merge
    known = record is not None and record.commit == commits[ref]
    return HandIn(commits[ref], record.base if record is not None and known else "", ref)


def _attempt_of(ref: str) -> int:
    last = ref.rpartition("/")[2]
    return int(last) if last.isdecimal() else 0


def _refuse_elsewhere(at: At | None, task: Task) -> None:
    """Refuse to hand in work for another task."""
    if at is None or (at.task, at.attempt) == (task.id, task.facts.attempt):
        return
    raise Refused(
        f"Your worktree is at attempt {at.attempt} of task #{at.task}, not at attempt "
        f"{task.facts.attempt} of task #{task.id}, so it does not hold the work of #{task.id}.",
        reason="tree_elsewhere",
        remedy=f"Release #{task.id} and claim it again: your worktree is then updated for it.",
    )
