"""What somebody has to make a team of: git, tmux, keys, agent programs. Only looks, asks nobody."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.agents.drivers.native.choice import ANTHROPIC_KEY, OPENAI_KEY
from bullpen.agents.drivers.programs import PROGRAMS
from bullpen.agents.drivers.survey import Surveyed, survey
from bullpen.errors import BullpenError
from bullpen.teamfile.project import Project, look_at
from bullpen.workspace.git import Git

_KEYS = (ANTHROPIC_KEY, OPENAI_KEY)
_ASKED_S = 10
_VERSION = re.compile(r"\d+\.\d+\w*")


@dataclass(frozen=True, slots=True)
class Outfit:
    """What is there. A version is None where the program is missing or does not answer."""

    project: Project
    git: str | None
    tmux: str | None
    # How many files have changes that are not committed; None if that could not be found out.
    uncommitted: int | None
    # The names of keys for models that are set; whether they work nobody has tried.
    keys: tuple[str, ...]
    drivers: tuple[Surveyed, ...]

    @property
    def usable(self) -> tuple[Surveyed, ...]:
        """Those that can take turns here, best first; a script always can."""
        last = [each for each in self.drivers if each.name == "scripted"]
        return (*(each for each in self.drivers if self._asks_a_model(each)), *last)

    @property
    def best(self) -> str:
        """The driver to take if nobody says."""
        return self.usable[0].name

    @property
    def nearly(self) -> tuple[Surveyed, ...]:
        """Those whose key or program is there, and that lack no more than a library of ours."""
        return tuple(
            each
            for each in self.drivers
            if each.missing is not None and (each.path or (each.name == "native" and self.keys))
        )

    def lacks(self, driver: str) -> str | None:
        """What a driver needs before it can take turns here, and how to get it; None if nothing."""
        found = next((each for each in self.drivers if each.name == driver), None)
        if found is None or found in self.usable:
            return None
        steps = [found.missing] if found.missing else []
        if driver == "native" and not self.keys:
            steps.append(f"Set {' or '.join(_KEYS)}.")
        elif driver in PROGRAMS and found.path is None:
            # It may be said already, where no library is missing.
            steps.append(f"Install it: {PROGRAMS[driver].install}")
        return " ".join(dict.fromkeys(steps))

    def _asks_a_model(self, each: Surveyed) -> bool:
        if each.missing is not None:
            return False
        # A program of another vendor has its own log-in, which only it can tell of.
        return bool(self.keys) if each.name == "native" else each.path is not None


def look_around(folder: Path, environ: Mapping[str, str]) -> Outfit:
    """What there is for a team that is to work in a folder."""
    project = look_at(folder)
    return Outfit(
        project,
        _version("git", "--version", environ),
        _version("tmux", "-V", environ),
        None if project.no_repository is not None else _uncommitted(folder),
        tuple(name for name in _KEYS if environ.get(name)),
        tuple(survey(environ)),
    )


def outfit_json(outfit: Outfit) -> dict[str, Any]:
    """What is there, as a JSON object; never a key itself."""
    project = outfit.project
    return {
        "directory": str(project.folder),
        "git": outfit.git,
        "tmux": outfit.tmux,
        "repository": project.no_repository is None,
        "no_repository": project.no_repository,
        "branch": project.branch,
        "uncommitted": outfit.uncommitted,
        "tests": project.tests,
        "keys": {name: name in outfit.keys for name in _KEYS},
        "drivers": [
            {
                "name": each.name,
                "title": each.title,
                "path": each.path,
                "usable": each in outfit.usable,
                "missing": outfit.lacks(each.name),
            }
            for each in outfit.drivers
            if each.name != "acp"
        ],
        "best": outfit.best,
    }


def _version(program: str, word: str, environ: Mapping[str, str]) -> str | None:
    path = shutil.which(program, path=environ.get("PATH"))
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603
            [path, word],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASKED_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout)
    return found[0] if found else None


def _uncommitted(folder: Path) -> int | None:
    try:
        said = Git(folder).run("status", "--porcelain", "-z", "--untracked-files=normal")
    except BullpenError:
        return None
    return said.out.count("\0") if said.ok else None
