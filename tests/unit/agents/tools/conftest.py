"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.tools_fixtures import ann, bob, lead, make_bench, team

__all__ = ["ann", "bob", "lead", "make_bench", "team"]
