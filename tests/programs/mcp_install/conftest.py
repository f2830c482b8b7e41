"""Fixtures of this folder."""

from __future__ import annotations

from support.doors.mcp_install_fixtures import install, person, team

__all__ = ["install", "person", "team"]
