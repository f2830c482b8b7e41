"""Fixtures of this folder."""

from __future__ import annotations

from support.crew_fixtures import place

__all__ = ["place"]
