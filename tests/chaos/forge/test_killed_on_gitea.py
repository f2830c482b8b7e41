"""Killed with -9 at every write to a real Gitea, a worker loses and repeats nothing.

Every gate plays a story of one issue in which each kind of write kills once, before and after it.
`BULLPEN_NIGHTLY=1` plays a story with all kinds of writes in which every single write kills, one
after the other; and some writes that kill alone, so that one worker does all that follows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage, Roles, open_stage
from support.forge.killed_worker import Death

from .stories import play, play_all_kills

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
ALONE = (2, 6, 10, 14, 18)


@pytest.fixture
async def stage(gitea: GiteaServer, roles: Roles, tmp_path: Path) -> AsyncIterator[GiteaStage]:
    async with open_stage(gitea, roles, tmp_path / "people") as stage:
        yield stage
        at = f"/repos/{stage.owner}/{stage.name}"
        for issue in gitea.call("GET", f"{at}/issues?state=all&type=issues").json():
            events = gitea.call("GET", f"{at}/issues/{issue['number']}/timeline").json()
            assert [each["type"] for each in events].count("close") == 1
        # Two labels may have the same name there.
        labels = [each["name"] for each in gitea.call("GET", f"{at}/labels?limit=50").json()]
        assert len(labels) == len(set(labels))


@BEFORE_AND_AFTER
async def test_killed_at_each_kind_of_write(stage: GiteaStage, tmp_path: Path, after: bool) -> None:
    site = await play(stage, tmp_path / "here", "one", Death("each kind", after), kind="gitea")
    assert site.writes.kinds_made() <= set(site.writes.kills())


@pytest.mark.nightly
@BEFORE_AND_AFTER
async def test_killed_at_every_write_one_after_the_other(
    stage: GiteaStage, tmp_path: Path, after: bool
) -> None:
    writes = await play_all_kills(stage, tmp_path / "here", after=after, kind="gitea")
    print(f"killed at {writes} writes")


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize("at", ALONE)
async def test_killed_at_one_write(stage: GiteaStage, tmp_path: Path, at: int, after: bool) -> None:
    site = await play(stage, tmp_path / "here", "one", Death(at, after), kind="gitea")
    assert site.restarts == 1, "the story has fewer writes"
