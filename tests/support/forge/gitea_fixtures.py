"""One Gitea for all tests of a worker. Without its program they are skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from .gitea_build import missing
from .gitea_server import GiteaServer, running
from .gitea_stage import GiteaStage, Roles, open_stage


@pytest.fixture(scope="session")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GiteaServer]:
    """A running server."""
    if why := missing():
        pytest.skip(why)
    with running(tmp_path_factory.mktemp("gitea")) as server:
        yield server


@pytest.fixture(scope="session")
def roles(gitea: GiteaServer) -> Roles:
    """The accounts that act on the server, the same for all tests."""
    return Roles.made(gitea)


@pytest.fixture
async def stage(gitea: GiteaServer, roles: Roles, tmp_path: Path) -> AsyncIterator[GiteaStage]:
    """A new repository on the server."""
    async with open_stage(gitea, roles, tmp_path) as stage:
        yield stage
