"""Showing a team at work in a folder of its own, and what it made there."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bullpen.app import Settings
from bullpen.cli.render import Page
from bullpen.cli.watch_run import Start
from bullpen.demo import GOAL, prepare
from bullpen.demo import play as play_team
from bullpen.unattended.outcome import Outcome

_FILES_MAX = 20
_COMMITS_MAX = 10
_GIT_S = 10


def play(
    settings: Settings,
    page: Page,
    watched: Callable[[str, Start], Outcome],
    *,
    backend: str | None,
    keep: bool,
) -> Outcome:
    """Let the team work; afterwards everything is removed, unless it is to be kept.

    Its home is in the same folder: nobody's own teams are touched.
    """
    folder = Path(tempfile.mkdtemp(prefix="bullpen-demo-"))
    project, home = folder / "project", folder / "home"
    # Its team is nobody else's business: in a folder of its own, whatever store is set.
    at_home = replace(settings, home=home, team=None, store=None)
    try:
        prepare(project)
        outcome = watched(
            GOAL,
            lambda watch: play_team(at_home, backend=backend, folder=project, watch=watch),
        )
        if not page.json:
            show_made(page, project)
            page.line()
            page.line("A team for a project of yours: cd there, then: bullpen init")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep and not page.json:
        page.line()
        page.line(f"Kept in {folder}. Look around:")
        page.line(f"  bullpen events --home {shlex.quote(str(home))}")
    return outcome


def show_made(page: Page, folder: Path) -> None:
    """Write what lies in a folder, and how it came there."""
    files = _files(folder)
    page.line()
    page.title("What the team made:")
    for path, size in files[:_FILES_MAX]:
        page.line(f"  {path} ({size} bytes)")
    if len(files) > _FILES_MAX:
        page.line(f"  and {len(files) - _FILES_MAX} more")
    if not files:
        page.line("  No files.")
    commits = _commits(folder)
    if commits:
        page.line()
        page.title("Its commits, newest first:")
        for line in commits:
            page.line(f"  {line}")


def _files(folder: Path) -> list[tuple[str, int]]:
    files = [
        (path.relative_to(folder), path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    hidden = (".", "__pycache__")
    return [
        (str(path), size)
        for path, size in files
        if not any(part.startswith(hidden) for part in path.parts)
    ]


def _commits(folder: Path) -> list[str]:
    """The newest commits; none if this is no repository or there is no git."""
    if not (folder / ".git").exists():
        return []
    form = f"--max-count={_COMMITS_MAX}", "--format=%h %an: %s"
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), "log", *form],  # noqa: S607
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()
