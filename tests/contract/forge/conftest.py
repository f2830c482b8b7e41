"""A real Gitea, where it is built."""

from support.forge.gitea_fixtures import gitea, roles, stage

__all__ = ["gitea", "roles", "stage"]
