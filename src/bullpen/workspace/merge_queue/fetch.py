"""Fetches work that was handed in elsewhere, from the clones' source or a remote."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.errors import Unavailable
from bullpen.protocol.task import Merge
from bullpen.workspace.git.run_git import GIT_S, Git, GitFailed

_NOT_THERE = "couldn't find remote ref"


def have(git: Git, record: Merge, sources: Iterable[str]) -> bool:
    """Return whether the repository has some work, after trying to fetch it.

    Raises:
        Unavailable: it does not, and not every source could be asked.
    """
    if git.run("rev-parse", "--verify", "--quiet", f"{record.commit}^{{commit}}").ok:
        return True
    problems = []
    for source in [*sources, *_remotes(git)]:
        wish = f"+{record.ref}:{record.ref}"
        words = (
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
        )
        try:
            ran = git.run(*words, "--", source, wish, seconds=GIT_S)
        except GitFailed as error:
            problems.append(f"{source}: {error.said}")
            continue
        if ran.ok and git.run("cat-file", "-e", f"{record.commit}^{{commit}}").ok:
            return True
        if not ran.ok and _NOT_THERE not in ran.err:
            problems.append(f"{source}: {ran.err.strip()}")
    if problems:
        raise Unavailable(
            f"The work at {record.ref} cannot be fetched: {'; '.join(problems)}",
            remedy="Fix what git reports. The queue tries again.",
        )
    return False


def _remotes(git: Git) -> list[str]:
    names = git("remote").splitlines()
    return sorted(names, key=lambda name: (name != "origin", name))
