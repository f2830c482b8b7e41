"""Fixtures of this folder."""

from __future__ import annotations

from support.store.other_programs_fixtures import files, node_modules, store

__all__ = ["files", "node_modules", "store"]
