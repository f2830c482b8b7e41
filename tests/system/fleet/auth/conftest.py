"""Fixtures of this folder."""

from __future__ import annotations

from support.fleet.auth_commands import home, ok, run

__all__ = ["home", "ok", "run"]
