"""`bullpen spawn --workspace`, and where `ps` says that agents work."""

from __future__ import annotations

import os
import subprocess
import sys

from bullpen.app.app import TMUX_SOCKET
from support.git.repositories import write
from support.offices import TEAM, Place

from .groves import branches, tree_of

RUN_S = 90.0


def bullpen(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "HOME": str(place.folder / "user"),
        "BULLPEN_HOME": str(place.home),
        TMUX_SOCKET: place.socket,
    }
    return subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "-t", TEAM], env=env, cwd=place.project,
        capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip


def spawn(place: Place, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    script = place.script(f"[agents.{name}]\n")
    return bullpen(
        place, "spawn", name, "--driver", "scripted", "--script", script, "--no-claim", *words
    )


async def test_an_agent_is_spawned_in_a_tree_of_its_own_by_a_command(place: Place) -> None:
    roots = place.folder / "roots"
    done = spawn(
        place, "ann", "--workspace", "worktree", "--workspace-root", str(roots),
        "--setup", "echo $BULLPEN_WORKSPACE > made", "--skill", "paint",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tree = roots / "project.bullpen" / TEAM / "ann"
    assert f"It works in {tree}." in done.stdout
    assert (tree / "made").read_text().strip() == str(tree)
    _, ann = await place.team.agents.get("ann")
    assert ann.spec.skills == ["paint"]
    assert str(tree) in bullpen(place, "ps").stdout


async def test_what_cannot_be_had_is_said_by_name_and_nothing_is_left(place: Place) -> None:
    write(place.project, {"a.txt": "changed\n"})
    refused = spawn(place, "ann", "--workspace", "worktree")
    assert (refused.returncode, "uncommitted" in refused.stderr) == (2, True), refused.stderr
    assert "a.txt" in refused.stderr
    assert branches(place) == ["main"]
    alone = spawn(place, "ann", "--setup", "true")
    assert alone.returncode == 2
    assert "--workspace" in alone.stderr
    left = spawn(place, "ann", "--workspace", "worktree", "--dirty", "leave")
    assert left.returncode == 0, left.stderr
    assert (tree_of(place, "ann") / "a.txt").read_text() == "one\n"
