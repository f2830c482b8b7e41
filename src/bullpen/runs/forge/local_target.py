"""Moves the user's target branch to where the forge's is, so that agents begin from there.

Called from a thread: it blocks.
"""

from __future__ import annotations

from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.protocol.task import Merge
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.pushes import Pushes
from bullpen.workspace.git.repository import common_dir
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.merge_queue.fetch import have
from bullpen.workspace.merge_queue.land import InTheWay, forward, target_of
from bullpen.workspace.merge_queue.lock import hold

_REF = "refs/bullpen/+forge"


def bring_target(settings: MergeSettings, pushes: Pushes, branch: str) -> str | None:
    """Fetch the forge's branch and move the local target to it; return why it could not move.

    Raises:
        Refused: the forge has no such branch, or there is no local target (no_target).
        Conflict: another process moves the target now.
        Unavailable: git fails, or the forge cannot be reached.
    """
    git = Git(Path(settings.repository))
    there = pushes.fetch(branch)
    target = target_of(git, settings.target)
    if there == target.commit:
        return None
    wish = f"+{pushes.fetched_ref(branch)}:{_REF}/{branch}"
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    git(*words, "--", str(pushes.folder), wish)
    if _is_before(git, there, target.commit):
        return None
    if not _is_before(git, target.commit, there):
        return (
            f"{settings.target} here has commits that the forge does not have, and the other way"
            f" round: run git pull, then git push, in {settings.repository}"
        )
    common = common_dir(Path(settings.repository))
    with hold(common, settings.target):
        moved = forward(git, common, target, there, why="bullpen: merged on the forge")
    if isinstance(moved, InTheWay):
        return moved.words
    return None if moved else f"{settings.target} was moved by somebody else"


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
