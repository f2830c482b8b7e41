"""One pull request for a night: a real team, real git, and a real forge or the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.forge.gitea_stage import GiteaStage
from support.forge.story_of_night import night_at, no_token_is_left, played


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


async def test_a_night_is_one_pull_request_on_the_stand_in_for_github(
    github: GitHubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = GitHubStage(github, tmp_path / "people")
    api = f'api = "{github.origin}"'
    try:
        async with night_at(stage, tmp_path, monkeypatch, "github", api=api) as night:
            await played(night, stage)
            no_token_is_left(night, stage)
    finally:
        await stage.aclose()
    assert github.violations == []


async def test_a_night_is_one_pull_request_on_a_real_gitea(
    stage: GiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with night_at(stage, tmp_path, monkeypatch, "gitea") as night:
        await played(night, stage)
        no_token_is_left(night, stage)
