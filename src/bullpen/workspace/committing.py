"""What an agent's tree holds, made into commits that can be merged; or refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bullpen.errors import Refused
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.workspace.arriving import MARK, half_way
from bullpen.workspace.git import TREE_S, Git, GitFailed
from bullpen.workspace.modules import links_in
from bullpen.workspace.names import component
from bullpen.workspace.whereabouts import At

_SUBJECT_CHARS_MAX = 200
_LINK = "160000"


def refuse_half_way(git: Git, workspace: Workspace) -> None:
    """Refuse a tree in which something was begun, or that is not where the agent's work is.

    Raises:
        Refused: detached_or_rebase.
    """
    if begun := half_way(git):
        what = begun[0]
        end = "git bisect reset" if what == "bisect" else f"git {what} --continue (or --abort)"
        raise Refused(
            f"A {what} was begun in {git.where} and not ended.",
            reason="detached_or_rebase",
            remedy=f"End it: {end}. Then complete the task again.",
        )
    if workspace.branch is None:
        return
    branch = f"refs/heads/{workspace.branch}"
    if git.run("symbolic-ref", "--quiet", "HEAD").out.strip() == branch:
        return
    tip = git.run("rev-parse", "--verify", "--quiet", branch)
    if tip.ok and not git.run("merge-base", "--is-ancestor", branch, "HEAD").ok:
        raise Refused(
            f"{git.where} is not on your branch {workspace.branch}, which has commits that are not"
            f" in what is checked out.",
            reason="detached_or_rebase",
            remedy=f"Run: git switch {workspace.branch} (and take over what you need).",
        )


def refuse_marks(tree: Path, names: Sequence[str]) -> None:
    """Refuse files in which both sides still stand.

    Raises:
        Refused: conflict_markers.
    """
    left = []
    for name in names:
        file = tree / name
        if not file.is_symlink() and file.is_file() and MARK.search(file.read_bytes()):
            left.append(name)
    if left:
        raise Refused(
            f"Lines with <<<<<<< or >>>>>>> are left in {', '.join(left)}.",
            reason="conflict_markers",
            remedy="Leave there what is right of both sides, remove those lines, and complete the"
            " task again.",
        )


def commit_all(git: Git, task: Task, *, team: str, agent: str) -> list[str]:
    """Commit all that is changed and not ignored; the files.

    Raises:
        Refused: nested_repository.
    """
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
    subject = " ".join(task.subject.split())[:_SUBJECT_CHARS_MAX]
    words = ("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "-F", "-")
    named = _named(git, team=team, agent=agent)
    named(*words, given=f"#{task.id} {subject}\n", seconds=TREE_S)
    return [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for _, name in found]


def _is_module(git: Git, name: str) -> bool:
    words = ("config", "--file", ".gitmodules", "-z", "--get-regexp", r"\.path$")
    return any(row.partition("\n")[2] == name for row in git.run(*words).out.split("\0"))


def _nested(name: str) -> Refused:
    return Refused(
        f"{name} is a git repository of its own inside your tree: its files would not be merged.",
        reason="nested_repository",
        remedy="Move it away, remove its .git, or have it ignored (.gitignore). Then complete the"
        " task again.",
    )


def _named(git: Git, *, team: str, agent: str) -> Git:
    """Git that knows who commits: the agent, where nobody is named."""
    if git.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT").ok:
        return git
    mail = f"{component(agent)}@{component(team)}.bullpen"
    return git.with_env(
        GIT_AUTHOR_NAME=agent,
        GIT_AUTHOR_EMAIL=mail,
        GIT_COMMITTER_NAME=agent,
        GIT_COMMITTER_EMAIL=mail,
    )


def base_of(git: Git, workspace: Workspace, at: At | None, head: str) -> str:
    """Where the work of a tree begins: the newest commit of the target that it is built on.

    That is where it was begun, unless the agent took in a newer target itself.
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
    """Refuse changes in a submodule that nobody else would see.

    Raises:
        Refused: submodule_changed.
    """
    if not (git.where / ".gitmodules").exists():
        return
    for row in git.lines("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=no"):
        fields = row.split(" ", 8)
        if fields[0] == "1" and fields[2][0] == "S" and fields[2][2:] != "..":
            raise Refused(
                f"Files are changed in the submodule {fields[8]}: they would not be merged.",
                reason="submodule_changed",
                remedy="Commit and push them in there, or undo them. Then complete the task again.",
            )


def refuse_lost_modules(git: Git, base: str, head: str) -> None:
    """Refuse a submodule at a commit that is nowhere but in this tree.

    Raises:
        Refused: submodule_changed.
    """
    if not (git.where / ".gitmodules").exists():
        return
    before = dict(links_in(git.where, base))
    for path, commit in links_in(git.where, head):
        own = git.at(git.where / path)
        if before.get(path) == commit or not (own.where / ".git").exists():
            continue
        if not own.run("branch", "--remotes", "--contains", commit).out.strip():
            raise Refused(
                f"The submodule {path} is at {commit[:12]}, which is on no remote of it: nobody"
                f" else could have it.",
                reason="submodule_changed",
                remedy="Push it in there, or take the submodule back to where it was.",
            )
