"""Fixtures of this folder."""

from __future__ import annotations

from support.crew_fixtures import crew, place

__all__ = ["crew", "place"]
