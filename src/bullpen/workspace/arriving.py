"""Bringing an agent's tree to where a task begins, with nothing in it lost."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.team.merge_rules import HandIn
from bullpen.workspace.git import TREE_S, Git, GitFailed
from bullpen.workspace.modules import links_in
from bullpen.workspace.names import REFS, component
from bullpen.workspace.replaying import Clash, squashed
from bullpen.workspace.repository import git_dir, is_changed
from bullpen.workspace.snapshots import save

HALF_WAY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
"""What in the git directory of a tree says that something was begun there and not ended."""

MARK = re.compile(rb"^(<{7,}|>{7,})( |\r?$)", re.MULTILINE)
"""A line that git writes where two sides contradict each other."""

_QUIT = {
    "rebase": ("rebase", "--quit"),
    "cherry-pick": ("cherry-pick", "--quit"),
    "revert": ("revert", "--quit"),
    "bisect": ("bisect", "reset", "HEAD"),
}
_PATHS_SHOWN_MAX = 20


def half_way(git: Git) -> list[str]:
    """What was begun in a tree and not ended: a rebase, a merge."""
    own = git_dir(git.where)
    return list(dict.fromkeys(what for name, what in HALF_WAY.items() if (own / name).exists()))


def target_of(git: Git, workspace: Workspace, branch: str) -> tuple[str, str]:
    """The ref of the target as a tree sees it, and its newest commit.

    Raises:
        Refused: no_target.
        GitFailed: a clone cannot ask for it.
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
            f"There is no branch {branch!r} in {workspace.repository}, where finished work goes.",
            reason="no_target",
            remedy=f"Make it (git branch {branch}), or name another: bullpen merge set --target B",
        )
    return ref, ran.out.strip()


def saved(git: Git, target: str, *, team: str, agent: str, why: str) -> str:
    """Save what a tree holds that is neither on the target nor handed in; what to say of it."""
    handed_in = f"--glob={REFS}/{component(team)}/+tasks/*"
    own = git("rev-list", "--max-count=1", "HEAD", "--not", target, handed_in)
    if not (is_changed(git.where) or own or half_way(git)):
        return ""
    kept = save(git.where, team=team, agent=agent, why=why)
    if kept is None:
        return ""
    return (
        f"What was in your tree before is not part of this task. It is saved:"
        f" bullpen workspace restore {kept.ref}"
    )


def switch(git: Git, workspace: Workspace, commit: str, *, team: str, agent: str) -> None:
    """Have a commit in the tree, on the agent's branch. What is not ignored and not in it goes."""
    for what in half_way(git):
        if what in _QUIT:
            git.run(*_QUIT[what])
    git("reset", "--quiet", "--hard", seconds=TREE_S)
    git("clean", "-ffdq", seconds=TREE_S)
    place = ("--detach",) if workspace.branch is None else ("--no-track", "-B", workspace.branch)
    words = ("checkout", "--quiet", "--no-recurse-submodules")
    if git.run(*words, "--no-overwrite-ignore", *place, commit, seconds=TREE_S).ok:
        return
    # An ignored file may be where the commit has one of its own.
    save(git.where, team=team, agent=agent, why="it was in the way of the target")
    git(*words, "--force", *place, commit, seconds=TREE_S)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Work in a tree with marks where it contradicts the target: what to say, and which files."""

    note: str
    marks: list[str]


def mix(git: Git, work: HandIn, target: str, task: Task) -> Mixed:
    """Lay work that contradicts the target on it, as changes that are not committed."""
    found = squashed(git, onto=target, base=work.base, commit=work.commit)
    tree = found.tree if isinstance(found, Clash) else found
    git("read-tree", "-m", "-u", target, tree, seconds=TREE_S)
    git("reset", "--quiet")
    if not isinstance(found, Clash):
        return Mixed("Your tree holds your work on the newest target, not committed.", [])
    marks = [name for name in found.files if _marked(git, name, found, work, target, task)]
    rest = [name for name in found.files if name not in marks]
    both = _listed(found.files)
    notes = ["Your tree holds your work on the newest target, not committed."]
    notes.append(f"Both changed: {both}. Mend that; nothing needs to be committed by you.")
    if marks:
        notes.append(
            f"In {_listed(marks)}, the target is between <<<<<<< and =======, your work between"
            f" ======= and >>>>>>>. Leave what is right, and no such line."
        )
    if rest:
        notes.append(
            f"No lines are marked in {_listed(rest)}: decide what it is to be, or whether it is to"
            f" be at all. As you had it: git show {work.commit[:12]}:PATH"
        )
    return Mixed("\n".join(notes), marks)


def _marked(git: Git, name: str, found: Clash, work: HandIn, target: str, task: Task) -> bool:
    """Name the sides in a file with marks; whether it has marks that were not in it before."""
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
    """Bring the submodules that the tree has to where the commit wants them; what cannot be."""
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
    return f"These submodules are not where they should be: {_listed(stuck)}." if stuck else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _PATHS_SHOWN_MAX
    return ", ".join(names[:_PATHS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
