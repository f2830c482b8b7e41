"""The whole loop on a real Gitea, and the same story on the stand-in for GitHub.

The gate plays four issues; BULLPEN_NIGHTLY=1 plays all twelve. With BULLPEN_FORGE_PICTURES=FOLDER,
pictures of Gitea's own pages are kept there, if its front end is built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.forge.gitea_build import has_pages
from support.forge.gitea_pictures import take_pictures
from support.forge.gitea_runner import ACTIONS_JOB, actions_of
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage
from support.forge.story import Crowd
from support.forge.story_night import PLOT, night_at, played

PICTURES = os.environ.get("BULLPEN_FORGE_PICTURES")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


async def test_a_backlog_is_merged_on_a_real_gitea(
    gitea: GiteaServer, stage: GiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, to = f"/{stage.owner}/{stage.name}", Path(PICTURES or tmp_path)

    async def shown(name: str, number: int) -> None:
        page = {f"{name}-{number}": f"{at}/pulls/{number}"}
        assert await take_pictures(gitea, page, to, login=stage.login("reviewer")) == []

    wanted = PICTURES is not None and has_pages()
    async with (
        actions_of(gitea, stage) as ci,
        night_at(stage, tmp_path, monkeypatch, "gitea") as night,
    ):
        client = stage.client("reviewer")
        crowd = Crowd(stage, PLOT, client, shown if wanted else None, ci.verdict)
        await played(night, crowd, job=ACTIONS_JOB)
    if wanted:
        pages = {
            "issues": f"{at}/issues?state=closed",
            "issue": f"{at}/issues/{crowd.issue_of(PLOT.red[0])}",
            "given-up": f"{at}/issues/{crowd.issue_of(str(PLOT.closed))}",
            "hostile": f"{at}/issues/{crowd.hostile}",
            "answered": f"{at}/pulls/{crowd.pull_of(PLOT.long).number}",
            "was-red": f"{at}/pulls/{crowd.pull_of(PLOT.red[0]).number}",
            "merged": f"{at}/pulls?state=closed",
            "commits": f"{at}/commits/branch/main",
        }
        assert await take_pictures(gitea, pages, to, login=stage.login("reviewer")) == []


async def test_the_same_backlog_is_merged_on_the_stand_in_for_github(
    github: GitHubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = GitHubStage(github, tmp_path / "people")
    api = f'api = "{github.origin}"'
    try:
        async with night_at(stage, tmp_path, monkeypatch, "github", api=api) as night:
            await played(night, Crowd(stage, PLOT, stage.client("reviewer")))
    finally:
        await stage.aclose()
    assert github.violations == []
