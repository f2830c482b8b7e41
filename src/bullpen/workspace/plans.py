"""Deciding which tree an agent gets, and refusing by name what cannot be had. Touches nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol.workspace import SETUP_S, DirtyStart, Workspace, WorkspaceKind
from bullpen.workspace.git import Git
from bullpen.workspace.modules import check_modules, notable
from bullpen.workspace.names import branch_of, component, folder_of
from bullpen.workspace.repository import (
    Repository,
    commit_of,
    is_changed,
    main_top,
    repository_at,
    superproject,
    under_way,
)

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
    """The tree that an agent is to get which is started in `cwd`.

    `remote` is what a clone comes from: the name of a remote, a URL or a path. Without it that is
    the user's repository itself; if the clone is made `elsewhere`, on another machine, it is the
    remote `origin`, or the only one.

    Raises:
        Refused: it cannot be had; `reason` says why.
        Invalid: the base is no branch and no commit.
        Unavailable: there can be no tree at its place, or git fails.
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
    """The commit that a branch of ours is at; None if there is no such branch.

    Raises:
        Refused: another branch leaves no room for its name (branch_in_the_way).
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
            f"The branch {found[0]!r} is in the way: with it there can be no branch {branch!r}.",
            reason="branch_in_the_way",
            remedy=f"Give it another name: git branch -m {found[0]} NEW-NAME",
        )
    return taken.get(branch)


def _shared(cwd: Path) -> Workspace:
    here = cwd.resolve()
    try:
        top = repository_at(cwd).top
    except Refused as error:
        # What agents share need not be a repository.
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
    """What a branch is to start from, as it is kept, and the commit that this is now."""
    if named is None:
        return repository.branch or repository.head, repository.head
    commit = commit_of(repository.top, named)
    if commit is None:
        raise Invalid(
            f"{named!r} is no branch and no commit of the repository at {repository.top}.",
            remedy="Name one of: git branch --list",
        )
    return (named if commit_of(repository.top, named, branch=True) else commit), commit


def _refuse_changes(repository: Repository, *, named: bool) -> None:
    """Refuse to begin where the user has something that the agent would not see."""
    begun = under_way(repository)
    changed = is_changed(repository.top)
    if changed:
        raise Refused(
            f"{len(changed)} files in {repository.top} are changed and not committed, and the agent"
            f" would not see that: {_named(changed)}."
            + (f" You are in the middle of {begun} there." if begun else ""),
            reason="dirty_start",
            remedy="Commit or stash them, or say that they may be left out (dirty=leave).",
        )
    if begun and repository.branch is None and not named:
        raise Refused(
            f"You are in the middle of {begun} in {repository.top}, on no branch: the agent would"
            f" begin with the commit {repository.head[:12]} that you have come to.",
            reason="under_way",
            remedy="End it first, name what to begin with (base), or say that this is meant"
            " (dirty=leave).",
        )


def _refuse_what_is_not_committed(repository: Repository, commit: str, inside: str) -> None:
    if inside and Git(repository.top).run("cat-file", "-t", f"{commit}:{inside}").out != "tree\n":
        raise Refused(
            f"The directory {inside!r} is not in the commit {commit[:12]} that the agent begins"
            " with.",
            reason="directory_missing",
            remedy="Commit it, or start in a directory that is committed.",
        )


def _named(paths: list[str]) -> str:
    more = len(paths) - _NAMED_MAX
    shown = ", ".join(repr(path) for path in paths[:_NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _source(repository: Repository, remote: str | None, *, elsewhere: bool) -> str:
    """What a clone comes from."""
    git = Git(repository.top)
    names = git("remote").splitlines()
    if remote is None:
        if not elsewhere:
            return str(main_top(repository))
        remote = "origin" if "origin" in names else names[0] if len(names) == 1 else None
    if remote in names:
        return git("remote", "get-url", remote)
    if remote is not None and ("/" in remote or ":" in remote):
        # A path from where the user is, unless it begins like a URL or names a machine.
        is_path = ":" not in remote.split("/")[0]
        return str(repository.top / Path(remote).expanduser()) if is_path else remote
    raise Refused(
        f"A clone of {repository.top} was asked for, and it is not clear from where: "
        + (f"there is no remote {remote!r}. " if remote else "")
        + (f"Its remotes are {', '.join(names)}." if names else "It has no remote."),
        reason="which_remote",
        remedy="Name the remote, or a URL, that the clone is to come from (remote).",
    )


def _refuse_what_is_not_pushed(
    repository: Repository, source: str, base: str, dirty: DirtyStart
) -> None:
    """Commits that the remote lacks are like changes that are not committed: nobody sees them."""
    git = Git(repository.top)
    names = git("remote").splitlines()
    name = next((each for each in names if git("remote", "get-url", each) == source), None)
    if dirty == "leave" or name is None:
        return
    only_here = git("rev-list", "--count", base, "--not", f"--remotes={name}")
    if only_here != "0":
        raise Refused(
            f"{only_here} commits of {base} are not on the remote {name}, and an agent in a clone"
            " of it would not see them.",
            reason="not_pushed",
            remedy=f"Run: git push {name} {base}, or say that they may be left out (dirty=leave).",
        )


def _refuse_missing_lfs(repository: Repository, commit: str) -> None:
    """Without its program, files in LFS would be short texts that only look like them."""
    git = Git(repository.top)
    attributes = [git("cat-file", "blob", found) for found in notable(repository.top, commit).rules]
    own = repository.common / "info" / "attributes"
    if own.is_file():
        attributes.append(own.read_text("utf-8", "replace"))
    if not any("filter=lfs" in text for text in attributes):
        return
    program = shutil.which("git-lfs") is not None
    if program and git.run("config", "--get-regexp", r"^filter\.lfs\.(process|smudge)$").ok:
        return
    raise Refused(
        f"Files in {repository.top} are kept in Git LFS, and "
        + ("it is not set up here." if program else "there is no program git-lfs here."),
        reason="lfs_missing",
        remedy="Run: git lfs install" if program else "Install git-lfs, then run: git lfs install",
    )


def _path(
    repository: Repository, root: Path | None, team: str, agent: str, *, elsewhere: bool
) -> Path:
    """Where the tree is to be."""
    main = main_top(repository)
    name = main.name.removesuffix(".git") or main.name
    above = root.expanduser() if root is not None else _outermost(repository, main).parent
    above = (repository.top / above).resolve()
    path = above / folder_of(name, team) / component(agent)
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(
            f"The path {str(path)!r} is not text, so that no record can hold it.",
            reason="path_not_text",
            remedy="Give the directory another name, or choose another root for the trees.",
        ) from None
    if not elsewhere:
        _refuse_a_root_that_is_seen(repository, above, path)
        _refuse_no_place(path)
    return path


def _outermost(repository: Repository, main: Path) -> Path:
    """What the trees are put beside: never inside of a project that this one is a module of."""
    found, above = main, superproject(repository.top)
    while above is not None:
        found, above = above, superproject(above)
    return found


def _refuse_a_root_that_is_seen(repository: Repository, above: Path, path: Path) -> None:
    """Trees inside of the user's own would be new files in it, and the next start a dirty one."""
    if not path.is_relative_to(repository.top):
        return
    inside = str(path.relative_to(repository.top))
    if not Git(repository.top).run("check-ignore", "--quiet", "--", f"{inside}/").ok:
        raise Refused(
            f"Trees in {above} would be files of {repository.top} that are not committed.",
            reason="root_in_tree",
            remedy="Choose a root outside of it, or name it in .gitignore.",
        )


def _refuse_no_place(path: Path) -> None:
    there = next(each for each in path.parents if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise Unavailable(
            f"There can be no tree at {path}: nothing can be written in {there}.",
            remedy="Choose another root for the trees, where you may write (root).",
        )
