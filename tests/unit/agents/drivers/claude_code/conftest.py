"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.claude_code_desk import desk

__all__ = ["desk"]
