"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.scripted_stage import play, team

__all__ = ["play", "team"]
