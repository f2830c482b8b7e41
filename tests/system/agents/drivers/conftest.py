"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.foreign_drivers_fixtures import place, programs

__all__ = ["place", "programs"]
