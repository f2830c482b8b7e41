"""Fixtures shared by all tests."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# What these prove must hold every time: a second try would hide the one loss in a hundred.
_NO_SECOND_TRY = (
    "fleet_bridge", "foreign", "merge_queue", "moving", "nats_chaos", "nats_store", "policy",
    "races", "servers", "workspace_fuzz",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the programs that only the nightly leg tests, unless this is it."""
    for item in items:
        if item.path.parent.name in _NO_SECOND_TRY:
            item.add_marker(pytest.mark.flaky(reruns=0))
    if os.environ.get("BULLPEN_NIGHTLY"):
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=nightly)
    items[:] = [item for item in items if item not in nightly]
