"""Fixtures of this folder. Gitea is there where it is built."""

from __future__ import annotations

from support.forge.gitea_fixtures import gitea, roles
from support.git.workspace_fixtures import _ports_are_given_back, _settings

__all__ = ["_ports_are_given_back", "_settings", "gitea", "roles"]
