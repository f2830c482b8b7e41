"""An idle team costs one request for each open pull request and interval, in every window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.forge.gitea_stage import GiteaStage
from support.forge.idle import check_idle


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


@pytest.mark.parametrize("pulls", [1, 3])
async def test_an_idle_team_keeps_to_its_requests_with_the_client_of_github(
    github: GitHubStandIn, tmp_path: Path, pulls: int
) -> None:
    stage = GitHubStage(github, tmp_path / "people")
    try:
        await check_idle(stage, tmp_path, "github", pulls=pulls, api=github.origin)
    finally:
        await stage.aclose()


@pytest.mark.parametrize("pulls", [1, 3])
async def test_an_idle_team_keeps_to_its_requests_with_the_client_of_gitea(
    stage: GiteaStage, tmp_path: Path, pulls: int
) -> None:
    await check_idle(stage, tmp_path, "gitea", pulls=pulls)
