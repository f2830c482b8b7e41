"""An agent's own tree between tasks: brought to the target for a task, and its work handed in.

Called by the agent's runner alone, from a thread: it blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.merge import MergeSettings, merge_of
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.team.merge_rules import HandIn
from bullpen.workspace import arriving, committing
from bullpen.workspace.git import TREE_S, Git
from bullpen.workspace.names import task_ref
from bullpen.workspace.replaying import Clash, replay
from bullpen.workspace.whereabouts import At, at_of, put_at


@dataclass(frozen=True, slots=True)
class Handed:
    """What was handed in, and the files that code committed for it."""

    work: HandIn
    committed: list[str]


def begin(
    workspace: Workspace, task: Task, settings: MergeSettings, *, team: str, agent: str
) -> str | None:
    """Bring a tree of an agent's own to the newest target, for a task that it took.

    What is in it and nowhere else is saved first. What was handed in with the task before is laid
    on the target. A tree that is at this task already is left as it is. What the agent must know
    is returned.

    Raises:
        Refused: no_target, or whatever saving refuses: then nothing was changed.
        Unavailable: git cannot do it, or a file cannot be used.
    """
    if workspace.kind == "shared":
        return None
    with _told(workspace):
        return _begin(workspace, task, settings, team=team, agent=agent)


def _begin(
    workspace: Workspace, task: Task, settings: MergeSettings, *, team: str, agent: str
) -> str | None:
    git = Git(Path(workspace.path))
    before = at_of(git, team, agent)
    earlier = _earlier(git, task, workspace, team=team)
    if before is not None and before.task == task.id:
        if before.attempt == task.facts.attempt:
            return None
        if earlier is None or before.attempt > _attempt_of(earlier.ref):
            put_at(git, team, agent, before.evolve(attempt=task.facts.attempt))
            return "Your tree still holds what you did for this task before."
    target_ref, target = arriving.target_of(git, workspace, settings.target)
    notes = [arriving.saved(git, target, team=team, agent=agent, why=f"before task #{task.id}")]
    marks: list[str] = []
    if earlier is None:
        arriving.switch(git, workspace, target, team=team, agent=agent)
    else:
        base = earlier.base or git("merge-base", earlier.commit, target)
        laid = replay(git, onto=target, base=base, commit=earlier.commit)
        start = target if isinstance(laid, Clash) else laid.commit
        arriving.switch(git, workspace, start, team=team, agent=agent)
        if isinstance(laid, Clash):
            mixed = arriving.mix(git, HandIn(earlier.commit, base, earlier.ref), target, task)
            notes.append(mixed.note)
            marks = mixed.marks
        else:
            notes.append(
                f"Your tree holds the work that was handed in with this task before"
                f" ({earlier.commit[:12]}), on the newest {settings.target}."
            )
    notes.append(arriving.bring_modules(git, workspace))
    at = At.new(
        task=task.id, attempt=task.facts.attempt, base=target, target=target_ref, marks=marks
    )
    put_at(git, team, agent, at)
    return "\n".join(note for note in notes if note) or None


def hand_in(workspace: Workspace, task: Task, *, team: str, agent: str) -> Handed | None:
    """Hand in what a tree holds beyond the target; None if that is nothing.

    What is not committed is committed here. A ref of ours keeps it, also in the repository that a
    clone came from.

    Raises:
        Refused: conflict_markers, detached_or_rebase, nested_repository, submodule_changed or
            tree_elsewhere.
        GitFailed: git cannot do it; a push that was refused, for one.
        Unavailable: a file cannot be used.
    """
    if workspace.kind == "shared":
        return None
    with _told(workspace):
        return _hand_in(workspace, task, team=team, agent=agent)


def _hand_in(workspace: Workspace, task: Task, *, team: str, agent: str) -> Handed | None:
    git = Git(Path(workspace.path))
    at = at_of(git, team, agent)
    _refuse_elsewhere(at, task)
    committing.refuse_half_way(git, workspace)
    committing.refuse_marks(git.where, [] if at is None else at.marks)
    committing.refuse_dirty_modules(git)
    committed = committing.commit_all(git, task, team=team, agent=agent)
    head = git("rev-parse", "HEAD")
    base = committing.base_of(git, workspace, at, head)
    if git("rev-parse", f"{base}^{{tree}}") == git("rev-parse", f"{head}^{{tree}}"):
        return None
    committing.refuse_lost_modules(git, base, head)
    ref = task_ref(team, task.id, task.facts.attempt)
    git("update-ref", "-m", f"bullpen: hand in #{task.id}", ref, head)
    if workspace.kind == "clone":
        git("push", "--quiet", "--no-verify", "origin", f"+{head}:{ref}", seconds=TREE_S)
    return Handed(HandIn(head, base, ref), committed)


@contextmanager
def _told(workspace: Workspace) -> Iterator[None]:
    """Say of a file that cannot be used what callers know: that something could not be had."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{error.filename or workspace.path} cannot be used: {error.strerror or error}.",
            remedy="See to that file and to the room on the disk, then try again.",
        ) from None


def _earlier(git: Git, task: Task, workspace: Workspace, *, team: str) -> HandIn | None:
    """The newest work that was handed in with a task, also if that was never recorded.

    Where that began is not known then.
    """
    folder = task_ref(team, task.id, 0).rpartition("/")[0]
    if workspace.kind == "clone":
        # Somebody else may have handed it in, from elsewhere.
        git("fetch", "--quiet", "--no-tags", "origin", f"+{folder}/*:{folder}/*", seconds=TREE_S)
    out = git("for-each-ref", "--format=%(refname) %(objectname)", folder)
    commits = dict(line.split(" ", 1) for line in out.splitlines())
    older = [ref for ref in commits if _attempt_of(ref) < task.facts.attempt]
    if not older:
        return None
    ref = max(older, key=_attempt_of)
    record = merge_of(task)
    known = record is not None and record.commit == commits[ref]
    return HandIn(commits[ref], record.base if record is not None and known else "", ref)


def _attempt_of(ref: str) -> int:
    last = ref.rpartition("/")[2]
    return int(last) if last.isdecimal() else 0


def _refuse_elsewhere(at: At | None, task: Task) -> None:
    """Refuse to hand in what was done for another task."""
    if at is None or (at.task, at.attempt) == (task.id, task.facts.attempt):
        return
    raise Refused(
        f"Your tree is at attempt {at.attempt} of task #{at.task}, not at attempt"
        f" {task.facts.attempt} of task #{task.id}: what it holds is not the work of that.",
        reason="tree_elsewhere",
        remedy=f"Give #{task.id} back and claim it again: then your tree is brought to it.",
    )
