"""Pushes the snapshots of a clone to its source before the clone is removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bullpen.errors import Refused
from bullpen.workspace.git.layout import repository_dir
from bullpen.workspace.git.ref_names import saved_refs
from bullpen.workspace.git.run_git import TREE_S, Git
from bullpen.workspace.snapshots.save import Saved, name_it, next_number, saved, verify


def carry(clone: Path, newest: Saved, source: str) -> Saved:
    """Push all snapshots of an agent to its clone's source. Returns the newest as it is there.

    Raises:
        Refused: they cannot be pushed (nowhere_to_keep).
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
    """Push a snapshot under a number that is free there."""
    prefix = saved_refs(row.team, row.agent)
    lines = git("ls-remote", "origin", f"{prefix}/*", seconds=TREE_S).splitlines()
    there = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
    for ref, commit in there.items():
        if commit == row.commit:
            return replace(row, ref=ref, number=int(ref.rpartition("/")[2]))
    number = next_number(there)
    ref = f"{prefix}/{number}"
    ran = git.run(
        "push", "--quiet", "--no-verify", f"--force-with-lease={ref}:", "origin",
        f"{row.commit}:{ref}", seconds=TREE_S,
    )  # fmt: skip
    if not ran.ok:
        raise Refused(
            f"The snapshot {row.ref} of {git.where} cannot be pushed to its source: "
            f"{ran.err.strip()[-500:]}",
            reason="nowhere_to_keep",
            remedy="The clone was kept. Allow pushes to refs/bullpen, or move the clone away "
            "yourself.",
        )
    return replace(row, ref=ref, number=number)
