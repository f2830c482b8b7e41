"""Fixtures of this folder."""

from __future__ import annotations

from support.doors.mcp_install_fixtures import person

__all__ = ["person"]
