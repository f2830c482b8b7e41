"""Decides which worktree an agent gets, and refuses what is not possible. Changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol.agent import SETUP_S, DirtyStart, Workspace, WorkspaceKind
from bullpen.workspace.git.ref_names import branch_of, component, folder_of
from bullpen.workspace.git.repository import (
    Repository,
    commit_of,
    is_changed,
    main_top,
    repository_at,
    superproject,
    unfinished,
)
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.submodules import check_modules, notable

_NAMED_MAX = 10
_WITHOUT_A_TREE = frozenset(("no_repository", "bare_repository", "no_commits"))


def plan(
    kind: WorkspaceKind,
    cwd: Path,
    *,
    team: str,
    agent: str,
    root: Path | None = None,
    base: str | None = None,
    remote: str | None = None,
    setup: str | None = None,
    setup_s: float = SETUP_S,
    dirty: DirtyStart = "refuse",
    elsewhere: bool = False,
) -> Workspace:
    """Return the worktree for an agent that is started in `cwd`.

    `remote` is the source of a clone: the name of a remote, a URL or a path. By default that is the
    user's repository; if the clone is created `elsewhere`, on another machine, it is the remote
    `origin`, or the only remote.

    Raises:
        Refused: it is not possible; `reason` says why.
        Invalid: the base is not a branch or commit.
        Unavailable: there can be no worktree in its place, or git fails.
    """
    if kind == "shared":
        return _shared(cwd)
    repository = repository_at(cwd)
    started_at, commit = _base(repository, base)
    inside = os.path.relpath(cwd.resolve(), repository.top)
    inside = "" if inside == "." else inside
    if dirty == "refuse":
        _refuse_changes(repository, named=base is not None)
    _refuse_what_is_not_committed(repository, commit, inside)
    source = str(repository.top)
    if kind == "clone":
        source = _source(repository, remote, elsewhere=elsewhere)
        _refuse_what_is_not_pushed(repository, source, started_at, dirty)
    else:
        branch_commit(repository.top, branch_of(team, agent))
    _refuse_missing_lfs(repository, commit)
    check_modules(repository.top, commit)
    path = _path(repository, root, team, agent, elsewhere=elsewhere)
    return Workspace.new(
        kind=kind,
        repository=source,
        path=str(path),
        inside=inside,
        branch=branch_of(team, agent),
        base=started_at,
        dirty=dirty,
        setup=setup,
        setup_s=setup_s,
    )


def branch_commit(tree: Path, branch: str) -> str | None:
    """Return the commit of an agent's branch; None if there is no such branch.

    Raises:
        Refused: another branch conflicts with its name (branch_in_the_way).
    """
    parts = branch.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    listed = Git(tree)(
        "for-each-ref", "--format=%(objectname) %(refname)", f"refs/heads/{parts[0]}"
    )
    taken = {line.partition(" refs/heads/")[2]: line.split()[0] for line in listed.splitlines()}
    below = [name for name in taken if name.startswith(f"{branch}/")]
    found = [each for each in above if each in taken] + sorted(below)
    if found:
        raise Refused(
            f"The branch {found[0]!r} is in the way: git cannot have {branch!r} beside it.",
            reason="branch_in_the_way",
            remedy=f"Rename it: git branch -m {found[0]} NEW-NAME",
        )
    return taken.get(branch)


def _shared(cwd: Path) -> Workspace:
    here = cwd.resolve()
    try:
        top = repository_at(cwd).top
    except Refused as error:
        # A shared directory need not be a repository.
        if error.reason not in _WITHOUT_A_TREE:
            raise
        top = here
    inside = os.path.relpath(here, top)
    return Workspace.new(
        kind="shared",
        repository=str(top),
        path=str(top),
        inside="" if inside == "." else inside,
    )


def _base(repository: Repository, named: str | None) -> tuple[str, str]:
    """Return the base of a new branch as it is recorded, and its current commit."""
    if named is None:
        return repository.branch or repository.head, repository.head
    commit = commit_of(repository.top, named)
    if commit is None:
        raise Invalid(
            f"{named!r} is not a branch or commit of the repository at {repository.top}.",
            remedy="Choose one of: git branch --list",
        )
    return (named if commit_of(repository.top, named, branch=True) else commit), commit


def _refuse_changes(repository: Repository, *, named: bool) -> None:
    """Refuse to start where the user has changes that the agent would not see."""
    begun = next((f"a {each}" for each in unfinished(repository.own)), None)
    changed = is_changed(repository.top)
    if changed:
        raise Refused(
            f"{repository.top} has {len(changed)} uncommitted files that the agent would not "
            f"see: {_named(changed)}."
            + (f" You are in the middle of {begun} there." if begun else ""),
            reason="dirty_start",
            remedy="Commit or stash them, or leave them out (dirty=leave).",
        )
    if begun and repository.branch is None and not named:
        raise Refused(
            f"You are in the middle of {begun} in {repository.top}, on no branch: the agent "
            f"would start with its current commit {repository.head[:12]}.",
            reason="under_way",
            remedy="Finish it first, choose what to start with (base), or accept this "
            "(dirty=leave).",
        )


def _refuse_what_is_not_committed(repository: Repository, commit: str, inside: str) -> None:
    if inside and Git(repository.top).run("cat-file", "-t", f"{commit}:{inside}").out != "tree\n":
        raise Refused(
            f"The directory {inside!r} is not in the commit {commit[:12]} that the agent starts "
            "with.",
            reason="directory_missing",
            remedy="Commit it, or start in a directory that is committed.",
        )


def _named(paths: list[str]) -> str:
    more = len(paths) - _NAMED_MAX
    shown = ", ".join(repr(path) for path in paths[:_NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _source(repository: Repository, remote: str | None, *, elsewhere: bool) -> str:
    """Return the source of a clone."""
    git = Git(repository.top)
    names = git("remote").splitlines()
    if remote is None:
        if not elsewhere:
            return str(main_top(repository))
        remote = "origin" if "origin" in names else names[0] if len(names) == 1 else None
    if remote in names:
        return git("remote", "get-url", remote)
    if remote is not None and ("/" in remote or ":" in remote):
        # A path relative to the user's directory, unless it looks like a URL or names a machine.
        is_path = ":" not in remote.split("/")[0]
        return str(repository.top / Path(remote).expanduser()) if is_path else remote
    raise Refused(
        f"The source of a clone of {repository.top} is not clear: "
        + (f"there is no remote {remote!r}. " if remote else "")
        + (f"Its remotes are {', '.join(names)}." if names else "It has no remote."),
        reason="which_remote",
        remedy="Name the remote or the URL to clone from (remote).",
    )


def _refuse_what_is_not_pushed(
    repository: Repository, source: str, base: str, dirty: DirtyStart
) -> None:
    """Refuse if the remote lacks commits: an agent in a clone would not see them."""
    git = Git(repository.top)
    names = git("remote").splitlines()
    name = next((each for each in names if git("remote", "get-url", each) == source), None)
    if dirty == "leave" or name is None:
        return
    only_here = git("rev-list", "--count", base, "--not", f"--remotes={name}")
    if only_here != "0":
        raise Refused(
            f"{only_here} commits of {base} are not on the remote {name}, so an agent in a clone "
            "of it would not see them.",
            reason="not_pushed",
            remedy=f"Run `git push {name} {base}`, or leave them out (dirty=leave).",
        )


def _refuse_missing_lfs(repository: Repository, commit: str) -> None:
    """Refuse if git-lfs is missing: files in LFS would be short placeholder texts."""
    git = Git(repository.top)
    attributes = [git("cat-file", "blob", found) for found in notable(repository.top, commit).rules]
    own = repository.common / "info" / "attributes"
    if own.is_file():
        attributes.append(own.read_text("utf-8", "replace"))
    if not any("filter=lfs" in text for text in attributes):
        return
    program = shutil.which("git-lfs") is not None
    wanted = ("--get-regexp", r"^filter\.lfs\.(process|smudge)$")
    # What only this repository's settings name is never run.
    if program and any(git.run("config", each, *wanted).ok for each in ("--global", "--system")):
        return
    raise Refused(
        f"Files in {repository.top} are stored in Git LFS, and "
        + ("it is not set up here." if program else "git-lfs is not installed."),
        reason="lfs_missing",
        remedy="Run: git lfs install" if program else "Install git-lfs, then run: git lfs install",
    )


def _path(
    repository: Repository, root: Path | None, team: str, agent: str, *, elsewhere: bool
) -> Path:
    """Return where the worktree will be."""
    main = main_top(repository)
    name = main.name.removesuffix(".git") or main.name
    above = root.expanduser() if root is not None else _outermost(repository, main).parent
    above = (repository.top / above).resolve()
    path = above / folder_of(name, team) / component(agent)
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(
            f"The path {str(path)!r} is not valid text, so it cannot be recorded.",
            reason="path_not_text",
            remedy="Rename the directory, or choose another root for the worktrees.",
        ) from None
    if not elsewhere:
        _refuse_a_root_that_is_seen(repository, above, path)
        _refuse_no_place(path)
    return path


def _outermost(repository: Repository, main: Path) -> Path:
    """Return what worktrees are put beside: the outermost project, if this one is a submodule."""
    found, above = main, superproject(repository.top)
    while above is not None:
        found, above = above, superproject(above)
    return found


def _refuse_a_root_that_is_seen(repository: Repository, above: Path, path: Path) -> None:
    """Refuse a root inside the user's checkout: worktrees there would be uncommitted files."""
    if not path.is_relative_to(repository.top):
        return
    inside = str(path.relative_to(repository.top))
    if not Git(repository.top).run("check-ignore", "--quiet", "--", f"{inside}/").ok:
        raise Refused(
            f"Worktrees in {above} would be uncommitted files in {repository.top}.",
            reason="root_in_tree",
            remedy="Choose a root outside it, or add it to .gitignore.",
        )


def _refuse_no_place(path: Path) -> None:
    there = next(each for each in path.parents if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise Unavailable(
            f"Cannot create a worktree at {path}: {there} is not writable.",
            remedy="Choose another root for the worktrees, one that you may write to (root).",
        )
