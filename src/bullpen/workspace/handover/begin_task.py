"""Brings an agent's worktree to where a task begins, without losing anything in it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused
from bullpen.protocol.agent import Workspace
from bullpen.protocol.task import Task
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.workspace.git.ref_names import REFS, component
from bullpen.workspace.git.replay_commits import Clash, squashed
from bullpen.workspace.git.repository import git_dir, is_changed, unfinished
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed
from bullpen.workspace.git.submodules import links_in
from bullpen.workspace.snapshots.save import save

MARK = re.compile(rb"^(<{7,}|>{7,})( |\r?$)", re.MULTILINE)
"""A line that git writes at a conflict."""

_QUIT = {
    "rebase": ("rebase", "--quit"),
    "cherry-pick": ("cherry-pick", "--quit"),
    "revert": ("revert", "--quit"),
}
_PATHS_SHOWN_MAX = 20


def target_of(git: Git, workspace: Workspace, branch: str) -> tuple[str, str]:
    """Return the ref of the target as a worktree sees it, and its newest commit.

    Raises:
        Refused: no_target.
        GitFailed: a clone cannot fetch it.
    """
    ref = f"refs/heads/{branch}"
    if workspace.kind == "clone":
        wish = f"+{ref}:refs/remotes/origin/{branch}"
        ref = f"refs/remotes/origin/{branch}"
        words = ("fetch", "--quiet", "--no-tags", "origin", wish)
        ran = git.run(*words, seconds=TREE_S)
        if not ran.ok and "couldn't find remote ref" not in ran.err:
            raise GitFailed(words, ran.code, ran.err, str(git.where))
    ran = git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if not ran.ok:
        raise Refused(
            f"The target branch {branch!r} does not exist in {workspace.repository}.",
            reason="no_target",
            remedy=f"Create it (git branch {branch}), or choose another: bullpen merge set "
            "--target B",
        )
    return ref, ran.out.strip()


def saved(git: Git, target: str, *, team: str, agent: str, task: str | None, why: str) -> str:
    """Save what is in a worktree but not on the target or handed in. Returns what to say.

    `task` is what the agent worked on there.
    """
    handed_in = f"--glob={REFS}/{component(team)}/+tasks/*"
    own = git("rev-list", "--max-count=1", "HEAD", "--not", target, handed_in)
    if not (is_changed(git.where) or own or unfinished(git_dir(git.where))):
        return ""
    kept = save(git.where, team=team, agent=agent, why=why, task=task)
    if kept is None:
        return ""
    return (
        "The earlier content of your worktree is not part of this task. It is saved: bullpen "
        f"workspace restore {kept.ref}"
    )


def switch(git: Git, workspace: Workspace, commit: str, *, team: str, agent: str) -> None:
    """Check out a commit on the agent's branch. Removes other files, except ignored ones."""
    own = git_dir(git.where)
    for what in unfinished(own):
        if what in _QUIT:
            git.run(*_QUIT[what])
        elif what == "bisect":
            _end_bisect(git, own)
    git("reset", "--quiet", "--hard", seconds=TREE_S)
    git("clean", "-ffdq", seconds=TREE_S)
    place = ("--detach",) if workspace.branch is None else ("--no-track", "-B", workspace.branch)
    words = ("checkout", "--quiet", "--no-recurse-submodules")
    if git.run(*words, "--no-overwrite-ignore", *place, commit, seconds=TREE_S).ok:
        return
    # An ignored file may be where the commit has one of its own.
    save(git.where, team=team, agent=agent, why="it was in the way of the target")
    git(*words, "--force", *place, commit, seconds=TREE_S)


def _end_bisect(git: Git, own: Path) -> None:
    """Forget an unfinished bisect. `git bisect` itself runs hooks, whatever it is told."""
    for ref in git("for-each-ref", "--format=%(refname)", "refs/bisect").splitlines():
        git("update-ref", "-d", ref)
    for file in own.glob("BISECT_*"):
        file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Conflicting work in a worktree with markers: what to say, and which files."""

    note: str
    marks: list[str]


def mix(git: Git, work: HandIn, target: str, task: Task) -> Mixed:
    """Apply work that conflicts with the target, as uncommitted changes."""
    found = squashed(git, onto=target, base=work.base, commit=work.commit)
    tree = found.tree if isinstance(found, Clash) else found
    git("read-tree", "-m", "-u", target, tree, seconds=TREE_S)
    git("reset", "--quiet")
    if not isinstance(found, Clash):
        return Mixed("Your worktree holds your work on top of the newest target, uncommitted.", [])
    marks = [name for name in found.files if _marked(git, name, found, work, target, task)]
    rest = [name for name in found.files if name not in marks]
    both = _listed(found.files)
    notes = ["Your worktree holds your work on top of the newest target, uncommitted."]
    notes.append(f"Both sides changed: {both}. Resolve the conflicts. You do not need to commit.")
    if marks:
        notes.append(
            f"In {_listed(marks)}, the target is between <<<<<<< and =======, your work is "
            "between ======= and >>>>>>>. Keep what is right and remove these marker lines."
        )
    if rest:
        notes.append(
            f"{_listed(rest)} has no markers: decide what it should contain, or whether to "
            f"delete it. Show your version: git show {work.commit[:12]}:PATH"
        )
    return Mixed("\n".join(notes), marks)


def _marked(git: Git, name: str, found: Clash, work: HandIn, target: str, task: Task) -> bool:
    """Name the sides in a file with markers. Returns whether it has markers that are new."""
    file = git.where / name
    if file.is_symlink() or not file.is_file():
        return False
    data = file.read_bytes()
    if found.ours.encode() not in data:
        return False
    data = data.replace(found.ours.encode(), b"the target")
    file.write_bytes(data.replace(found.theirs.encode(), f"task #{task.id}".encode()))
    sides = [git.run("cat-file", "-p", f"{commit}:{name}").out for commit in (target, work.commit)]
    return not any(MARK.search(side.encode("utf-8", "surrogateescape")) for side in sides)


def bring_modules(git: Git, workspace: Workspace) -> str:
    """Update the submodules to what the commit wants. Returns what could not be updated."""
    if not (git.where / ".gitmodules").exists():
        return ""
    stuck = []
    for path, commit in links_in(git.where, "HEAD"):
        own = git.at(git.where / path)
        if not (own.where / ".git").exists() or own("rev-parse", "HEAD") == commit:
            continue
        source = Path(workspace.repository) / path
        with suppress(OSError):
            if not own.run("cat-file", "-e", f"{commit}^{{commit}}").ok and source.is_dir():
                words = ("-c", "protocol.file.allow=always", "fetch", "--quiet")
                own.run(*words, str(source), "+refs/*:refs/remotes/bullpen/*")
        if not own.run("checkout", "--quiet", "--force", "--detach", commit).ok:
            stuck.append(f"{path} (wanted: {commit[:12]})")
    return f"These submodules are not at the right commit: {_listed(stuck)}." if stuck else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _PATHS_SHOWN_MAX
    return ", ".join(names[:_PATHS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
