"""Fixtures of this folder."""

from __future__ import annotations

from support.doors.mcp_house import house
from support.doors.mcp_install_fixtures import install, person, team

__all__ = ["house", "install", "person", "team"]
