"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.warm_session import warm_agents
from support.doors.cli_fixtures import as_json, at_terminal, follow, home, ok, run, spawn, team

__all__ = ["as_json", "at_terminal", "follow", "home", "ok", "run", "spawn", "team", "warm_agents"]
