"""Carrying snapshots out of a clone that is to be removed, to the repository that it came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bullpen.errors import Refused
from bullpen.workspace.git import TREE_S, Git
from bullpen.workspace.layout import repository_dir
from bullpen.workspace.names import saved_refs
from bullpen.workspace.snapshots import Saved, name_it, saved, verify


def carry(clone: Path, newest: Saved, source: str) -> Saved:
    """Bring all snapshots of an agent to where its clone came from; the newest as it is there.

    Raises:
        Refused: they cannot be brought there (nowhere_to_keep).
        Unavailable: git fails.
    """
    rows = saved(clone, newest.team, newest.agent)
    if not Path(source).is_absolute():
        return [_push(Git(clone), row) for row in rows][-1]
    common = repository_dir(Path(source))
    git = Git(common)
    carried = newest
    for row in rows:
        known = [each for each in saved(common, row.team, row.agent) if each.commit == row.commit]
        if known:
            carried = known[-1]
            continue
        git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(clone), row.ref,
            seconds=TREE_S)  # fmt: skip
        carried = name_it(git, row)
        verify(common, carried)
    return carried


def _push(git: Git, row: Saved) -> Saved:
    """Push a snapshot under a number that nobody has there."""
    prefix = saved_refs(row.team, row.agent)
    lines = git("ls-remote", "origin", f"{prefix}/*", seconds=TREE_S).splitlines()
    there = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
    for ref, commit in there.items():
        if commit == row.commit:
            return replace(row, ref=ref, number=int(ref.rpartition("/")[2]))
    numbers = [ref.rpartition("/")[2] for ref in there]
    number = max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
    ref = f"{prefix}/{number}"
    ran = git.run(
        "push", "--quiet", "--no-verify", f"--force-with-lease={ref}:", "origin",
        f"{row.commit}:{ref}", seconds=TREE_S,
    )  # fmt: skip
    if not ran.ok:
        raise Refused(
            f"The snapshot {row.ref} of {git.where} cannot be pushed to where it came from: "
            f"{ran.err.strip()[-500:]}",
            reason="nowhere_to_keep",
            remedy="The clone stays. Give leave to push to refs/bullpen, or move it away yourself.",
        )
    return replace(row, ref=ref, number=number)
