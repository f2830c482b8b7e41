"""Fixtures of this folder: a real Gitea, where it is built."""

from __future__ import annotations

from support.forge.gitea_fixtures import gitea, roles, stage

__all__ = ["gitea", "roles", "stage"]
