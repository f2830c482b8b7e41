"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.tools_fixtures import ann, bob, lead, make_bench, team
from support.crew_fixtures import crew
from support.doors.cli_fixtures import as_json, home, ok, run

__all__ = ["ann", "as_json", "bob", "crew", "home", "lead", "make_bench", "ok", "run", "team"]
