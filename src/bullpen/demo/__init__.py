"""A small scripted team that builds a small program: what `bullpen demo` shows."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bullpen.app import Settings
from bullpen.errors import Unavailable
from bullpen.goal import Goal, run_goal
from bullpen.unattended.outcome import Outcome, Progress

GOAL = "Write a word counter, with tests, a manual and a review."

_TEAM = "demo"
# It takes half a minute; if something is wrong with this machine, it must not take for ever.
_LONGEST_S = 180.0
_GIT_S = 30
# Nothing of anybody's own git may ask for a key, run a hook or stay behind in the background.
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
    """Make the project that the team starts with: a readme, two commands, a first commit.

    Raises:
        Unavailable: there is no git, or it does not work.
    """
    folder.mkdir(parents=True)
    # The user's path may have no python3; whoever runs this program has one.
    python = f"exec {shlex.quote(sys.executable)} -B"
    (folder / "README.md").write_text(_README, encoding="utf-8")
    (folder / "count").write_text(f'{python} wordcount.py "$@"\n', encoding="utf-8")
    (folder / "check").write_text(f"{python} -m unittest\n", encoding="utf-8")
    _git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    for name, value in _GIT_SETTINGS.items():
        _git(folder, "config", name, value)
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "--message=Start the project")


async def play(
    settings: Settings,
    *,
    backend: str | None,
    folder: Path,
    watch: Callable[[Progress], None],
) -> Outcome:
    """Let the team work in a prepared folder until it is done. Afterwards no agent runs.

    Without a backend the agents are in tmux if there is one, else processes of their own.
    """
    chosen = backend or ("tmux" if shutil.which("tmux") else "subprocess")
    goal = Goal(
        GOAL,
        cwd=str(folder),
        team=_TEAM,
        driver="scripted",
        backend=chosen,
        script=str(Path(__file__).with_name("team.toml")),
        timeout_s=_LONGEST_S,
        mode="bypassPermissions",
    )
    return await run_goal(settings, goal, watch)


def _git(folder: Path, *words: str) -> None:
    # Variables such as GIT_DIR would lead to another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *words],  # noqa: S607
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=_GIT_S,
            check=False,
            env=env,
        )
    except FileNotFoundError:
        raise Unavailable(
            "git is not installed, and the demo works in a git repository.",
            remedy="Install git, then try again.",
        ) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"git {words[0]} did not end within {_GIT_S} s.", remedy="Check that git works."
        ) from None
    if done.returncode:
        why = done.stderr.strip() or f"exit code {done.returncode}"
        raise Unavailable(f"git {words[0]} failed: {why}", remedy="Check that git works.")
