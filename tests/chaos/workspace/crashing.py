"""Prepares a tree again and again, killed with -9 at one call of git after another.

Run as a program: PROJECT KIND HOW all|some. Each round is a process of its own that makes a tree of
a new agent, and in which a stand-in for git kills its caller: `before` the call, `after` it, `both`
in the middle of it, or `beside` it, so that git goes on alone. Then the tree is prepared once more.
Prints a JSON line for each.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

from bullpen.protocol.agent import Workspace
from bullpen.sandbox import git_box
from bullpen.workspace.trees.tree import mark_of, plan, prepare

OWNER = "home/night"
_BESIDE_S = 0.3

_STAND_IN = """#!/bin/sh
here="{folder}"
echo "$*" | tr '\\n' ' ' >> "$here/calls"
echo >> "$here/calls"
count=$(wc -l < "$here/calls")
if [ $count -ne "$(cat "$here/at")" ]; then exec "{git}" "$@"; fi
who=$(cat "$here/who")
case "{how}" in
before) kill -9 $who ;;
after) "{git}" "$@"; kill -9 $who ;;
both) "{git}" "$@" & sleep 0.012; kill -9 $! $who ;;
beside) kill -9 $who; sleep {beside}; exec "{git}" "$@" ;;
esac
"""


def planned(project: Path, kind: str, agent: str) -> Workspace:
    """The tree of a round."""
    setup = "echo up >> set-up"
    if kind == "clone":
        return plan("clone", project, team="night", agent=agent, setup=setup)
    return plan("worktree", project, team="night", agent=agent, setup=setup)


def killed(workspace: Workspace, agent: str, number: int, folder: Path) -> bool:
    """Whether a process that prepares a tree was killed at that call of git."""
    (folder / "calls").write_text("", "utf-8")
    (folder / "at").write_text(str(number), "utf-8")
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        (folder / "who").write_text(str(os.getpid()), "utf-8")
        prepare(workspace, team="night", agent=agent, owner=OWNER)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main() -> None:
    """Kill at one call after another."""
    # From inside a sandbox, the stand-in could not kill anybody.
    git_box._program = lambda path: None  # type: ignore[assignment]
    project, kind, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    everything = sys.argv[4] == "all"
    folder = project.parent / f"stand-in-{kind}-{how}"
    folder.mkdir()
    stand_in = folder / "git"
    stand_in.write_text(
        _STAND_IN.format(git=shutil.which("git"), folder=folder, how=how, beside=_BESIDE_S), "utf-8"
    )
    stand_in.chmod(0o755)
    for number in [0, *numbers(project, kind, folder, everything=everything)]:
        agent = f"{how}-{number}"
        workspace = planned(project, kind, agent)
        was_killed = killed(workspace, agent, number, folder)
        prepare(workspace, team="night", agent=agent, owner=OWNER)
        # From now on an agent works there: a git that was left behind must not undo that.
        Path(workspace.path, "a.txt").write_text("work\n", "utf-8")
        mark = mark_of(Path(workspace.path))
        ready = mark is not None and mark.ready
        row = {"killed": was_killed, "path": workspace.path, "ready": ready, "agent": agent}
        print(json.dumps(row), flush=True)
    time.sleep(_BESIDE_S + 0.2)


def numbers(project: Path, kind: str, folder: Path, *, everything: bool) -> list[int]:
    """At which calls of git to kill: at all, or at those that change something."""
    killed(planned(project, kind, "first"), "first", 0, folder)
    calls = (folder / "calls").read_text("utf-8").splitlines()
    # The last is the call right before the user's hook.
    words = ("add", "reset", "clone", "update-ref", "rev-parse HEAD")
    changing = [f" {each} " for each in words]
    return [
        number
        for number, call in enumerate(calls, start=1)
        if everything or any(each in f" {call} " for each in changing)
    ]


if __name__ == "__main__":
    main()
