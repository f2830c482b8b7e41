"""Fixtures of this folder."""

from __future__ import annotations

from support.fuzz.fixtures import pytest_report_header, sandbox, shared, store, team, workers

__all__ = ["pytest_report_header", "sandbox", "shared", "store", "team", "workers"]
