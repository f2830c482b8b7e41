"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.native_fixtures import spec, workplace
from support.agents.tools_fixtures import ann, make_bench, team
from support.crew_fixtures import place

__all__ = ["ann", "make_bench", "place", "spec", "team", "workplace"]
