"""Turns the content of an agent's worktree into commits that can be merged, or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bullpen.errors import Refused
from bullpen.protocol.agent import Workspace
from bullpen.protocol.task import Task
from bullpen.workspace.git.repository import git_dir, unfinished
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed
from bullpen.workspace.git.submodules import dirty_modules, links_in
from bullpen.workspace.git.task_commits import message, with_author
from bullpen.workspace.handover.begin_task import MARK
from bullpen.workspace.trees.current_task import At

_LINK = "160000"


def refuse_unfinished(git: Git, workspace: Workspace) -> None:
    """Refuse an unfinished git operation, or the wrong branch (detached_or_rebase)."""
    if begun := unfinished(git_dir(git.where)):
        what = begun[0]
        end = "git bisect reset" if what == "bisect" else f"git {what} --continue (or --abort)"
        raise Refused(
            f"A {what} in {git.where} is not finished.",
            reason="detached_or_rebase",
            remedy=f"Finish it: {end}. Then complete the task again.",
        )
    if workspace.branch is None:
        return
    branch = f"refs/heads/{workspace.branch}"
    if git.run("symbolic-ref", "--quiet", "HEAD").out.strip() == branch:
        return
    tip = git.run("rev-parse", "--verify", "--quiet", branch)
    if tip.ok and not git.run("merge-base", "--is-ancestor", branch, "HEAD").ok:
        raise Refused(
            f"{git.where} is not on your branch {workspace.branch}, which has commits that are "
            "not checked out.",
            reason="detached_or_rebase",
            remedy=f"Run `git switch {workspace.branch}` and bring over what you need.",
        )


def refuse_marks(tree: Path, names: Sequence[str]) -> None:
    """Refuse files that still have conflict markers (conflict_markers)."""
    files = {name: tree / name for name in names if not (tree / name).is_symlink()}
    left = [n for n, file in files.items() if file.is_file() and MARK.search(file.read_bytes())]
    if left:
        raise Refused(
            f"Conflict markers (<<<<<<< or >>>>>>>) are left in {', '.join(left)}.",
            reason="conflict_markers",
            remedy="Keep what is right, remove the marker lines, then complete the task again.",
        )


def commit_all(git: Git, task: Task, *, agent: str, author: str | None) -> list[str]:
    """Commit what is changed and not ignored. Returns the files. Refuses nested repositories."""
    added = git.run("add", "--all", "--sparse", seconds=TREE_S)
    if not added.ok:
        if "does not have a commit checked out" in added.err:
            raise _nested(added.err.split("'")[1])
        raise GitFailed(["add", "--all"], added.code, added.err, str(git.where))
    rows = git.lines("diff", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "HEAD")
    found = list(zip(rows[::2], rows[1::2], strict=False))
    for about, name in found:
        before, after = about.split(" ")[:2]
        if after == _LINK and before != f":{_LINK}" and not _is_module(git, name):
            git("reset", "--quiet", seconds=TREE_S)
            raise _nested(name)
    if not found:
        return []
    words = ("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "-F", "-")
    named = with_author(git, author, agent=agent)
    named(*words, given=message(task.subject, task.id, agent), seconds=TREE_S)
    return [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for _, name in found]


def _is_module(git: Git, name: str) -> bool:
    words = ("config", "--file", ".gitmodules", "-z", "--get-regexp", r"\.path$")
    return any(row.partition("\n")[2] == name for row in git.run(*words).out.split("\0"))


def _nested(name: str) -> Refused:
    return Refused(
        f"{name} is a separate git repository inside your worktree: its files would not be merged.",
        reason="nested_repository",
        remedy="Move it away, delete its .git, or add it to .gitignore. Then complete the task "
        "again.",
    )


def base_of(git: Git, workspace: Workspace, at: At | None, head: str) -> str:
    """Return where the work of a worktree begins: the newest target commit it is based on.

    That is where the task started, unless the agent merged a newer target itself.
    """
    if at is None:
        return git("merge-base", head, workspace.base or head)
    since = git.run("merge-base", head, at.target)
    found = since.out.strip()
    built_on = git.run("merge-base", "--is-ancestor", at.base, head).ok
    if built_on and not (since.ok and git.run("merge-base", "--is-ancestor", at.base, found).ok):
        return at.base
    if not since.ok:
        raise GitFailed(["merge-base", head, at.target], since.code, since.err, str(git.where))
    return found


def refuse_dirty_modules(git: Git) -> None:
    """Refuse changes in a submodule that nobody else would see (submodule_changed)."""
    if not (git.where / ".gitmodules").exists():
        return
    for path in dirty_modules(git.where):
        raise Refused(
            f"Files in the submodule {path} are changed: they would not be merged.",
            reason="submodule_changed",
            remedy="Commit and push them in the submodule, or undo them. Then complete the task "
            "again.",
        )


def refuse_lost_modules(git: Git, base: str, head: str) -> None:
    """Refuse a submodule whose commit exists only in this worktree (submodule_changed)."""
    if not (git.where / ".gitmodules").exists():
        return
    before = dict(links_in(git.where, base))
    for path, commit in links_in(git.where, head):
        own = git.at(git.where / path)
        if before.get(path) == commit or not (own.where / ".git").exists():
            continue
        if not own.run("branch", "--remotes", "--contains", commit).out.strip():
            raise Refused(
                f"The submodule {path} is at {commit[:12]}, which is on none of its remotes: "
                "nobody else could get it.",
                reason="submodule_changed",
                remedy="Push it from the submodule, or reset the submodule.",
            )
