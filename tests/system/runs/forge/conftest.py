"""Fixtures of this folder: a project, and a real Gitea where it is built."""

from __future__ import annotations

from support.forge.gitea_fixtures import gitea, roles, stage
from support.git.workspace_fixtures import _ports_are_given_back, _settings, project

__all__ = ["_ports_are_given_back", "_settings", "gitea", "project", "roles", "stage"]
