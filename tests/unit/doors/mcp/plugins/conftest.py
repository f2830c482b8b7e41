"""Fixtures of this folder."""

from __future__ import annotations

from support.doors.cli_fixtures import home, ok, run, team
from support.doors.mcp_in_process import house

__all__ = ["home", "house", "ok", "run", "team"]
