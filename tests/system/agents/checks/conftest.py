"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.checks_fixtures import crew, place, project

__all__ = ["crew", "place", "project"]
