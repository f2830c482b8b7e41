"""Finds out what is available for a team: git, tmux, keys, agent programs. Changes nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.agents.drivers.native.model_choice import ANTHROPIC_KEY, OPENAI_KEY
from bullpen.agents.drivers.survey import Surveyed, survey
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.errors import BullpenError
from bullpen.runs.teamfile.project import Project, look_at
from bullpen.workspace.git.run_git import Git

_KEYS = (ANTHROPIC_KEY, OPENAI_KEY)
_ASKED_S = 10
_VERSION = re.compile(r"\d+\.\d+\w*")


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """What is available. A version is None if the program is missing or does not answer."""

    project: Project
    git: str | None
    tmux: str | None
    # How many files have uncommitted changes; None if unknown.
    uncommitted: int | None
    # The names of the API keys that are set. Nobody has tried them.
    keys: tuple[str, ...]
    drivers: tuple[Surveyed, ...]
    # The prefixes of providers whose keys are set, which have no default model.
    others: tuple[str, ...] = ()

    @property
    def usable(self) -> tuple[Surveyed, ...]:
        """Return the drivers that can take turns here, best first; a script always can."""
        last = [each for each in self.drivers if each.name == "scripted"]
        return (*(each for each in self.drivers if self._asks_a_model(each)), *last)

    @property
    def best(self) -> str:
        """Return the default driver."""
        return self.usable[0].name

    @property
    def nearly(self) -> tuple[Surveyed, ...]:
        """Return the drivers that have their key or program and lack only a library."""
        return tuple(
            each
            for each in self.drivers
            if each.missing is not None and (each.path or (each.name == "native" and self.keys))
        )

    def lacks(self, driver: str) -> str | None:
        """Return what a driver lacks and how to get it; None if it lacks nothing."""
        found = next((each for each in self.drivers if each.name == driver), None)
        if found is None or found in self.usable:
            return None
        steps = [found.missing] if found.missing else []
        if driver == "native" and not self.keys:
            named = "".join(f", or name a model: {prefix}:MODEL" for prefix in self.others[:1])
            steps.append(f"Set {' or '.join(_KEYS)}{named}.")
        elif driver in PROGRAMS and found.path is None:
            # `missing` may say it already.
            steps.append(f"Install it: {PROGRAMS[driver].install}")
        first, *rest = dict.fromkeys(steps)
        then = [f"{step[:1].lower()}{step[1:]}" for step in rest]
        return ". Then ".join([first.rstrip("."), *then]) if then else first

    def _asks_a_model(self, each: Surveyed) -> bool:
        if each.missing is not None:
            return False
        # Only the program itself knows whether it is logged in.
        return bool(self.keys) if each.name == "native" else each.path is not None


def look_around(folder: Path, environ: Mapping[str, str]) -> Prerequisites:
    """Return what is available for a team in a folder."""
    project = look_at(folder)
    return Prerequisites(
        project,
        _version("git", "--version", environ),
        _version("tmux", "-V", environ),
        None if project.no_repository is not None else _uncommitted(folder),
        tuple(name for name in _KEYS if environ.get(name)),
        tuple(survey(environ)),
        tuple(
            each.prefix
            for each in PROVIDERS.values()
            if any(environ.get(name) for name in each.keys if name not in _KEYS)
        ),
    )


def prerequisites_json(found: Prerequisites) -> dict[str, Any]:
    """Return what is available as a JSON object, without the keys themselves."""
    project = found.project
    return {
        "directory": str(project.folder),
        "git": found.git,
        "tmux": found.tmux,
        "repository": project.no_repository is None,
        "noRepository": project.no_repository,
        "branch": project.branch,
        "uncommitted": found.uncommitted,
        "tests": project.tests,
        "keys": {name: name in found.keys for name in _KEYS},
        "drivers": [
            {
                "name": each.name,
                "title": each.title,
                "path": each.path,
                "usable": each in found.usable,
                "missing": found.lacks(each.name),
            }
            for each in found.drivers
            if each.name != "acp"
        ],
        "best": found.best,
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
