"""The demo: a scripted team that builds a small program."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.settings import Settings
from bullpen.runs.goal import Goal, run_goal
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.workspace.git.run_git import Git, identity

GOAL = "Write a word counter, with tests, a manual and a review."

_TEAM = "demo"
# It takes half a minute. If something is wrong with this machine, it must still end.
_LONGEST_S = 180.0
# The user's git settings must not ask for a key, run a hook or start a background process.
_GIT_SETTINGS = {
    "user.name": "bullpen demo",
    "user.email": "demo@demo.invalid",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "core.hooksPath": os.devnull,
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_README = """\
# wordcount

Counts the lines, words and characters of text files.

    sh count FILE...    counts
    sh check            runs the tests
"""


def prepare(folder: Path) -> None:
    """Create the project of the demo: a readme, two commands, a first commit.

    Raises:
        Unavailable: git is not installed, or fails.
    """
    folder.mkdir(parents=True)
    # There may be no python3 on the PATH.
    python = f"exec {shlex.quote(sys.executable)} -B"
    (folder / "README.md").write_text(_README, encoding="utf-8")
    (folder / "count").write_text(f'{python} wordcount.py "$@"\n', encoding="utf-8")
    (folder / "check").write_text(f"{python} -m unittest\n", encoding="utf-8")
    git = Git(folder, identity(_GIT_SETTINGS["user.name"], _GIT_SETTINGS["user.email"]))
    git("init", "--quiet", "--template=", "--initial-branch=main")
    for name, value in _GIT_SETTINGS.items():
        git("config", name, value)
    git("add", ".")
    git("commit", "--quiet", "--message=Start the project")


async def play(
    settings: Settings,
    *,
    backend: str | None,
    folder: Path,
    watch: Callable[[Progress], None],
) -> Outcome:
    """Let the team work in a prepared folder until it is done. Then no agent is running.

    The default backend is tmux if it is installed, else subprocess.
    """
    chosen = backend or ("tmux" if shutil.which("tmux") else "subprocess")
    goal = Goal(
        GOAL,
        SpawnRequest(
            cwd=str(folder),
            driver="scripted",
            backend=chosen,
            script=str(Path(__file__).with_name("team.toml")),
            mode="bypassPermissions",
        ),
        team=_TEAM,
        timeout_s=_LONGEST_S,
    )
    return await run_goal(goal, settings=settings, watch=watch)
