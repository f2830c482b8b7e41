"""Moves the user's target branch to where the forge's is, so that agents begin from there.

Called from a thread: it blocks.
"""

from __future__ import annotations

from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.protocol.task import Merge, Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.pushes import Pushes
from bullpen.workspace.git.repository import common_dir
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.task_commits import with_author
from bullpen.workspace.merge_queue.fetch import have
from bullpen.workspace.merge_queue.land import InTheWay, Target, forward, target_of
from bullpen.workspace.merge_queue.lock import hold

_REF = "refs/bullpen/+forge"
_FILES_MAX = 20


def bring_target(settings: MergeSettings, pushes: Pushes, branch: str) -> str | None:
    """Fetch the forge's branch and move the local target to it; return why it could not move.

    Raises:
        Refused: the forge has no such branch, or there is no local target (no_target).
        Conflict: another process moves the target now.
        Unavailable: git fails, or the forge cannot be reached.
    """
    git = Git(Path(settings.repository))
    there = _fetched(git, pushes, branch)
    target = target_of(git, settings.target)
    if there == target.commit:
        return None
    if _is_before(git, there, target.commit):
        return None
    if not _is_before(git, target.commit, there):
        return (
            f"{settings.target} here has commits that the forge does not have, and the other way"
            f" round: run git pull, then git push, in {settings.repository}"
        )
    return _forwarded(git, settings, target, there)


def join_target(
    settings: MergeSettings, pushes: Pushes, branch: str
) -> tuple[str | None, str | None]:
    """Bring the forge's branch into the local target, by a merge commit if both have gone on.

    Returns the commit of the local target that has both, or why the target could not move.

    Raises:
        Refused: the forge has no such branch, or there is no local target (no_target).
        Conflict: another process moves the target now.
        Unavailable: git fails, or the forge cannot be reached.
    """
    git = Git(Path(settings.repository))
    there = _fetched(git, pushes, branch)
    target = target_of(git, settings.target)
    if there == target.commit:
        return None, None
    if _is_before(git, there, target.commit):
        # A worker that was killed may have joined them, and not have said so.
        return target.commit, None
    if _is_before(git, target.commit, there):
        return None, _forwarded(git, settings, target, there)
    merged = git.run("merge-tree", "--write-tree", "--name-only", target.commit, there)
    if not merged.ok:
        files = ", ".join(merged.out.split("\n\n")[0].splitlines()[1:][:_FILES_MAX])
        return None, f"it conflicts with the forge's {branch}: {files or 'git cannot merge them'}"
    named = with_author(git, settings.author, agent="bullpen")
    said = f"Merge {branch} of the forge into {settings.target}"
    words = ("commit-tree", merged.out.split()[0], "-p", target.commit, "-p", there, "-m", said)
    commit = named(*words).strip()
    why = _forwarded(git, settings, target, commit)
    return (commit, None) if why is None else (None, why)


def _fetched(git: Git, pushes: Pushes, branch: str) -> str:
    """Fetch the forge's branch into the user's repository and return its commit."""
    there = pushes.fetch(branch)
    wish = f"+{pushes.fetched_ref(branch)}:{_REF}/{branch}"
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    git(*words, "--", str(pushes.folder), wish)
    return there


def _forwarded(git: Git, settings: MergeSettings, target: Target, commit: str) -> str | None:
    """Move the local target; return why it could not move."""
    common = common_dir(Path(settings.repository))
    with hold(common, settings.target):
        moved = forward(git, common, target, commit, why="bullpen: merged on the forge")
    if isinstance(moved, InTheWay):
        return moved.words
    return None if moved else f"{settings.target} was moved by somebody else"


def changed_files(settings: MergeSettings, task: Task) -> frozenset[str]:
    """Return the files that the handed-in work of a task changed; none if it is not here."""
    record = task.facts.merge
    if record is None:
        return frozenset()
    git = Git(Path(settings.repository))
    ran = git.run("diff", "--name-only", "-z", "--no-renames", record.base, record.commit)
    return frozenset(name for name in ran.out.split("\0") if name) if ran.ok else frozenset()


def fetch_work(settings: MergeSettings, record: Merge, sources: list[str]) -> None:
    """Bring handed-in work into the user's repository, if it was handed in elsewhere.

    Raises:
        Unavailable: it is not there, and cannot be fetched.
    """
    if not have(Git(Path(settings.repository)), record, sources):
        raise Unavailable(
            f"Commit {record.commit} ({record.ref}) cannot be found.",
            remedy="Bring the repository back that it was handed in to.",
        )


def is_on(settings: MergeSettings, commit: str, branch: str) -> bool:
    """Return whether the local target, or a commit, has a commit."""
    return _is_before(Git(Path(settings.repository)), commit, branch)


def _is_before(git: Git, old: str, new: str) -> bool:
    return git.run("merge-base", "--is-ancestor", old, new).ok
