"""Fixtures shared by all tests, what a test's folder says about it, and what the gate plays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from support.agents.warm_session import pytest_sessionfinish, pytest_sessionstart
from support.gate.pool import Pool, durations, in_pieces
from support.gate.written import pytest_configure
from support.samples import guaranteed, left_out, samples

__all__ = ["pytest_configure", "pytest_sessionfinish", "pytest_sessionstart"]

TESTS = Path(__file__).parent

# A warm parent outlives the test that started it. `warm_user` turns them on for agents of a home
# that all tests share: with a home of its own, each test would start parents of its own.
os.environ["BULLPEN_WARM_START"] = "off"

# How fast examples are drawn says how busy the machine is, and nothing about the code.
settings.register_profile("any_load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_load")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What only the gate and the night ask for."""
    group = parser.getgroup("gate")
    group.addoption("--pool", action="store_true", help="give workers whole files, slowest first")
    group.addoption(
        "--left-out", action="store_true", help="play what the gate leaves to the night"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and leave out what is not asked for."""
    for item in items:
        item.add_marker(item.path.relative_to(TESTS).parts[0])
    night = bool(os.environ.get("BULLPEN_NIGHTLY"))
    rest = _left_to_the_night(items)
    if config.getoption("--left-out"):
        _keep(config, items, rest | {item for item in items if item.get_closest_marker("pages")})
    elif not night:
        _keep(config, items, set(items) - rest)
    if config.getoption("--pool"):
        pieces = in_pieces([item.nodeid for item in items], durations())
        place = {test: at for at, tests in enumerate(pieces.values()) for test in tests}
        items.sort(key=lambda item: place[item.nodeid])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Pool | None:
    """The order of the gate, if it is asked for."""
    return Pool(config, log) if config.getoption("--pool") else None


def _left_to_the_night(items: list[pytest.Item]) -> set[pytest.Item]:
    left = left_out([item.nodeid for item in items], samples(), guaranteed())
    return {item for item in items if item.nodeid in left or item.get_closest_marker("nightly")}


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
