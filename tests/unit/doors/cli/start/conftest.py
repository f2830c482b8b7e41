"""Fixtures of this folder."""

from __future__ import annotations

from support.doors.cli_fixtures import as_json, home, ok, run

__all__ = ["as_json", "home", "ok", "run"]
