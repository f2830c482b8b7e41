"""A person at a shell: a home, a project to work in, and a team."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .people import BULLPEN, Install, Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    env = {
        "PATH": f"{BULLPEN.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
    }
    return Person(home, project, env)


@pytest.fixture
def team(person: Person) -> str:
    person.said("team", "create", "alpha")
    return "alpha"


@pytest.fixture
def install(person: Person, team: str) -> Install:
    """Connect a program as carol; what was said."""

    def run(program: str, *words: str, **env: str) -> str:
        named = ("--team", team, "--as", "carol")
        return person.said("mcp", "install", program, *named, "--yes", *words, **env)

    return run
