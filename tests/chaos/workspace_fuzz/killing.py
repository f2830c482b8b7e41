"""Removes a tree again and again, killed with -9 at one step after another. Run as a program.

PROJECT KIND THEN STRIDE. Each round has a tree of a new agent with all kinds of content. A child of
this process removes it and is killed right before its n-th step: a call of git, a move, a deletion,
a file that is written. `then` somebody removes the tree again, or resumes the agent first. Prints a
JSON line for each round: what went missing, which must be nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from bullpen.protocol.agent import Workspace
from bullpen.workspace.removal.remove import Removed, remove
from bullpen.workspace.snapshots.save import saved
from bullpen.workspace.trees.restore import restore
from bullpen.workspace.trees.set_aside import aside_of, done_with
from bullpen.workspace.trees.tree import plan, prepare

from .census import Census, census, differences
from .troubles import (
    commits,
    empty_folders,
    ignored,
    links,
    nested,
    only_in_the_log,
    staged,
    untracked,
)

TEAM, OWNER = "night", "home/night"
_STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "subprocess.Popen"}
_WRITES = os.O_WRONLY | os.O_RDWR


def _killed_at(step: int, tree: Workspace, agent: str) -> bool:
    """Whether a process that removes a tree was killed before that step."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
        return os.WIFSIGNALED(status)
    left = step

    def watch(event: str, about: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _STEPS or (event == "open" and (about[2] or 0) & _WRITES):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(watch)
        _remove(tree, agent)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _remove(tree: Workspace, agent: str) -> Removed:
    return remove(tree, team=TEAM, agent=agent, owner=OWNER, why="a test")


def _round(project: Path, kind: str, then: str, step: int) -> dict[str, Any]:
    agent, dice = f"a{step}", random.Random(step)
    tree = plan("clone" if kind == "clone" else "worktree", project, team=TEAM, agent=agent)
    prepare(tree, team=TEAM, agent=agent, owner=OWNER)
    path = Path(tree.path)
    for trouble in (
        only_in_the_log,
        commits,
        staged,
        untracked,
        ignored,
        links,
        empty_folders,
        nested,
    ):
        trouble(dice, path)
    was = census(path)
    killed = _killed_at(step, tree, agent)
    lost: list[str] = []
    if killed and then == "resume":
        prepare(tree, team=TEAM, agent=agent, owner=OWNER)
        if not done_with(path).exists() and not saved(project, TEAM, agent):
            lost += differences(was, census(path))
    again = _remove(tree, agent)
    left = [each for each in (path, aside_of(path), done_with(path)) if os.path.lexists(each)]
    lost += [f"{each} is left" for each in left]
    return {
        "step": step,
        "killed": killed,
        "branch": again.branch,
        "lost": [*lost, *_not_restored(project, agent, was)],
    }


def _not_restored(project: Path, agent: str, was: Census) -> list[str]:
    """How every snapshot differs from what was there; nothing if one does not."""
    found: list[str] = ["there is no snapshot"]
    for row in reversed(saved(project, TEAM, agent)):
        back = project.parent / f"back-{agent}-{row.number}"
        found = differences(was, census(restore(project, row.ref, back).path))
        if not found:
            return []
    return found


def main() -> None:
    """Kill at every so many steps, until a removal ends by itself."""
    project, kind, then = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    stride = int(sys.argv[4])
    step = 1
    while True:
        row = _round(project, kind, then, step)
        print(json.dumps(row), flush=True)
        if not row["killed"]:
            return
        step += stride


if __name__ == "__main__":
    main()
