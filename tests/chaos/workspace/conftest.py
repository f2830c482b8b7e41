"""Fixtures of this folder."""

from __future__ import annotations

from support.git.workspace_fixtures import _ports_are_given_back, _settings, project

__all__ = ["_ports_are_given_back", "_settings", "project"]
