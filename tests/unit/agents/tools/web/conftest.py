"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.tools_fixtures import ann, make_bench, team

__all__ = ["ann", "make_bench", "team"]
