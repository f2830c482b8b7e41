"""One user for the agents of a whole run, so that they share warm parents, which end with the run.

The home of a user is part of what a warm parent is found by. Users run warm, so most tests should.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agents.backends.warm_start.starter import OFF, WARM_START

from .warm_starts import end_warm_parents

_folders: list[Path] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember where this run has its folders: the same for all workers."""
    _folders[:] = [_folder_of(session.config)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the warm parents of this run, also those of tests with a home of their own.

    Only once all workers are done: each uses the parents that another one started.
    """
    if not _is_worker():
        end_warm_parents(f"HOME={_folder_of(session.config)}/")


def warm_user() -> dict[str, str]:
    """The variables of a user who has nothing, and whose agents start warm.

    A process that is started by a test has no run of its own: its agents start cold.
    """
    if not _folders:
        return {WARM_START: OFF}
    home = _folders[0] / "user-of-warm-agents"
    home.mkdir(exist_ok=True)
    left = os.listdir(home)
    assert left == [], f"A test has left {left} in the home that many tests share."
    return {"HOME": str(home), WARM_START: "on"}


@pytest.fixture
def warm_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agents of a test start warm that works by commands, here or in other processes."""
    for name, value in warm_user().items():
        monkeypatch.setenv(name, value)


def _folder_of(config: pytest.Config) -> Path:
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    base = factory.getbasetemp()
    return base.parent if _is_worker() else base


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ
