"""Fixtures shared by all tests, and what a test's folder says about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.samples import left_out, samples

TESTS = Path(__file__).parent

# A warm parent outlives the test that started it. Tests about warm starts turn them on.
os.environ["BULLPEN_WARM_START"] = "off"

# How fast examples are drawn says how busy the machine is, and nothing about the code.
settings.register_profile("any_load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_load")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and leave out what only the nightly leg tests."""
    for item in items:
        item.add_marker(item.path.relative_to(TESTS).parts[0])
    if os.environ.get("BULLPEN_NIGHTLY"):
        return
    left = left_out([item.nodeid for item in items], samples())
    nightly = [item for item in items if item.nodeid in left or item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=nightly)
    deselected = set(nightly)
    items[:] = [item for item in items if item not in deselected]
