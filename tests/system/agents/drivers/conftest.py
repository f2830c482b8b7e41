"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.foreign_drivers_fixtures import place, programs
from support.agents.scripted_stage import play, team

__all__ = ["place", "play", "programs", "team"]
