"""Fixtures of this folder."""

from __future__ import annotations

from support.store.locking_calls import hasty
from support.store.other_programs_fixtures import files, node_modules, store

__all__ = ["files", "hasty", "node_modules", "store"]
