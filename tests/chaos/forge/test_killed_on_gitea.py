"""Killed with -9 at any write to a real Gitea, a worker loses and repeats nothing.

`BULLPEN_NIGHTLY=1` plays every write; else each kind of write kills once, before and after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage, Roles, open_stage
from support.forge.killed_worker import Death

from .stories import ISSUE, STORIES, WRITES, play

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@pytest.fixture
async def stage(gitea: GiteaServer, roles: Roles, tmp_path: Path) -> AsyncIterator[GiteaStage]:
    async with open_stage(gitea, roles, tmp_path / "people") as stage:
        yield stage
        path = f"/repos/{stage.owner}/{stage.name}/issues/{ISSUE}/timeline"
        shown = gitea.call("GET", path).json()
        assert [each["type"] for each in shown].count("close") == 1


@BEFORE_AND_AFTER
async def test_killed_at_each_kind_of_write(stage: GiteaStage, tmp_path: Path, after: bool) -> None:
    death = Death("each kind", after)
    site = await play(stage, tmp_path / "here", "reviewed", death, kind="gitea")
    assert set(site.writes.kills()) == set(site.writes.begun())


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize("story", STORIES)
async def test_killed_at_every_write_one_after_the_other(
    stage: GiteaStage, tmp_path: Path, story: str, after: bool
) -> None:
    site = await play(stage, tmp_path / "here", story, Death("each", after), kind="gitea")
    assert set(site.writes.kills()) == set(site.writes.begun())


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize(
    ("story", "at"), [(story, at + 1) for story in STORIES for at in range(WRITES[story])]
)
async def test_killed_at_one_write(
    stage: GiteaStage, tmp_path: Path, story: str, at: int, after: bool
) -> None:
    site = await play(stage, tmp_path / "here", story, Death(at, after), kind="gitea")
    # A story that is shorter kills nobody.
    assert site.restarts == (at <= len(site.writes.begun()))
