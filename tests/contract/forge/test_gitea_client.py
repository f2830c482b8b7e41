"""The client of Gitea keeps every promise, on a real server."""

from __future__ import annotations

from bullpen.testing.forge.contract import ForgeContract


class TestGiteaClient(ForgeContract):
    """The whole suite."""
