"""Fixtures of this folder."""

from __future__ import annotations

from support.fuzz.fixtures import sandbox, shared, store, team, workers

__all__ = ["sandbox", "shared", "store", "team", "workers"]
