"""Run the demo team in its own folder, and show what it made."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bullpen.app.settings import Settings
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import Start
from bullpen.errors import BullpenError
from bullpen.runs.demo import GOAL, prepare
from bullpen.runs.demo import play as play_team
from bullpen.runs.watch.outcome import Outcome
from bullpen.workspace.git.run_git import Git

_FILES_MAX = 20
_COMMITS_MAX = 10
_GIT_S = 10


def play(
    settings: Settings,
    page: Page,
    watched: Callable[[Settings, str, Start], Outcome],
    *,
    backend: str | None,
    keep: bool,
) -> Outcome:
    """Let the team work; afterwards everything is removed, unless it is to be kept.

    Its home is in the same folder: nobody's own teams are touched.
    """
    folder = Path(tempfile.mkdtemp(prefix="bullpen-demo-"))
    project, home = folder / "project", folder / "home"
    # The demo uses its own folder, whatever store is set.
    at_home = replace(settings, home=home, team=None, store=None)
    try:
        prepare(project)
        outcome = watched(
            at_home,
            GOAL,
            lambda watch: play_team(at_home, backend=backend, folder=project, watch=watch),
        )
        if not page.json:
            show_made(page, project)
            if not keep:
                page.line()
                page.line("All of it is deleted now. To keep it: bullpen demo --keep")
            page.line()
            page.line("To start a team in your project, run there: bullpen init")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep and not page.json:
        page.line()
        page.line(f"Kept in {folder}. Look at it:")
        page.line(f"  bullpen events --home {shlex.quote(str(home))}")
    return outcome


def show_made(page: Page, folder: Path) -> None:
    """Show the files in a folder and its commits."""
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
        page.title("Commits, newest first:")
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
        out = Git(folder).run("log", *form, seconds=_GIT_S).out
    except BullpenError:
        return []
    return out.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").splitlines()
