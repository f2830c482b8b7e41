"""Killed with -9 at any write to the stand-in for GitHub, a worker loses and repeats nothing.

`BULLPEN_NIGHTLY=1` plays every write; else each kind of write kills once, before and after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.forge.killed_worker import Death

from .stories import ISSUE, STORIES, WRITES, play

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as server:
        yield server


@pytest.fixture
async def stage(server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
    stage = GitHubStage(server, tmp_path / "people")
    server.seen.clear()
    server.violations.clear()
    yield stage
    await stage.aclose()
    assert server.violations == []
    closings = [each for each in server.seen if each.operation == "issues/update"]
    assert len([each for each in closings if each.path.endswith(f"/issues/{ISSUE}")]) <= 1


@BEFORE_AND_AFTER
async def test_killed_at_each_kind_of_write(
    stage: GitHubStage, tmp_path: Path, after: bool
) -> None:
    death = Death("each kind", after)
    site = await play(
        stage, tmp_path / "here", "reviewed", death, kind="github", api=stage.server.origin
    )
    assert set(site.writes.kills()) == set(site.writes.begun())


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize("story", STORIES)
async def test_killed_at_every_write_one_after_the_other(
    stage: GitHubStage, tmp_path: Path, story: str, after: bool
) -> None:
    death = Death("each", after)
    site = await play(
        stage, tmp_path / "here", story, death, kind="github", api=stage.server.origin
    )
    assert set(site.writes.kills()) == set(site.writes.begun())


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize(
    ("story", "at"), [(story, at + 1) for story in STORIES for at in range(WRITES[story])]
)
async def test_killed_at_one_write(
    stage: GitHubStage, tmp_path: Path, story: str, at: int, after: bool
) -> None:
    site = await play(
        stage, tmp_path / "here", story, Death(at, after), kind="github", api=stage.server.origin
    )
    # A story that is shorter kills nobody.
    assert site.restarts == (at <= len(site.writes.begun()))
