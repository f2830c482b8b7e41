"""Killed with -9 at every write to the stand-in for GitHub, a worker loses and repeats nothing.

Every gate plays a story of one issue in which each kind of write kills once, before and after it.
`BULLPEN_NIGHTLY=1` plays a story with all kinds of writes in which every single write kills, one
after the other; and some writes that kill alone, so that one worker does all that follows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.forge.killed_worker import Death

from .stories import play, play_all_kills

pytestmark = pytest.mark.no_loss

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
ALONE = (2, 6, 10, 14, 18)


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
    closings = [each.path for each in server.seen if each.operation == "issues/update"]
    assert len(closings) == len(set(closings)), "an issue was closed twice"


@BEFORE_AND_AFTER
async def test_killed_at_each_kind_of_write(
    stage: GitHubStage, tmp_path: Path, after: bool
) -> None:
    site = await play(
        stage,
        tmp_path / "here",
        "one",
        Death("each kind", after),
        kind="github",
        api=stage.server.origin,
    )
    assert site.writes.kinds_made() <= set(site.writes.kills())


@pytest.mark.nightly
@BEFORE_AND_AFTER
async def test_killed_at_every_write_one_after_the_other(
    stage: GitHubStage, tmp_path: Path, after: bool
) -> None:
    writes = await play_all_kills(
        stage, tmp_path / "here", after=after, kind="github", api=stage.server.origin
    )
    print(f"killed at {writes} writes")


@pytest.mark.nightly
@BEFORE_AND_AFTER
@pytest.mark.parametrize("at", ALONE)
async def test_killed_at_one_write(
    stage: GitHubStage, tmp_path: Path, at: int, after: bool
) -> None:
    site = await play(
        stage, tmp_path / "here", "one", Death(at, after), kind="github", api=stage.server.origin
    )
    assert site.restarts == 1, "the story has fewer writes"
