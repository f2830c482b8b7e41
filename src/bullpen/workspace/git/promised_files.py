"""Looks for promised signatures in the files of a commit: no worktree or link is asked."""

from __future__ import annotations

import re

from bullpen.protocol.record.promise import Promise
from bullpen.protocol.task import Check
from bullpen.team.promises.signatures import SOURCE_CHARS_MAX, problem
from bullpen.workspace.git.run_git import Git

_FILE = re.compile(r"100(?:644|755) blob [0-9a-f]+ +(\d+)\t")


def looked_for(git: Git, commit: str, promise: Promise) -> Check:
    """Look for a promised signature in a commit. Returns the result as a check.

    Raises:
        GitFailed: git fails, for example for lack of an object.
    """
    path, signature = promise.path or "", promise.signature or ""
    found = problem(path, signature, _source(git, commit, path))
    return Check.new(
        name=f"promise {promise.id}",
        kind="command",
        passed=found is None,
        detail=found or f"{path} has {signature}",
    )


def _source(git: Git, commit: str, path: str) -> str | None:
    """Return the text of a file in a commit; None if there is no such file."""
    listed = git("--literal-pathspecs", "ls-tree", "--long", commit, "--", path)
    about = _FILE.match(listed)
    if about is None:
        return None
    if int(about[1]) > SOURCE_CHARS_MAX:
        return " " * (SOURCE_CHARS_MAX + 1)
    return git("cat-file", "blob", f"{commit}:{path}")
