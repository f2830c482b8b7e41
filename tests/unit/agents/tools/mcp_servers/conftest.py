"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.native_fixtures import spec, workplace

__all__ = ["spec", "workplace"]
