"""Every test of this tier is held to its promise."""

from __future__ import annotations

import gc

from support.unit_promise import pytest_runtest_makereport, pytest_runtest_protocol

# What is collected stays to the end: to look through it again and again finds nothing.
gc.disable()

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]


def pytest_collection_finish() -> None:
    """Have what was collected looked through no more: it stays to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()
