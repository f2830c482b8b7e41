"""A signed delivery of the stand-in for GitHub makes a worker look that would wait for minutes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from bullpen.runs.forge.webhooks.hints import make_hook_secret
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.github.webhooks import Webhooks
from support.doors.web_stage import TEAM, served
from support.forge.hooked import hooked_worker, on_forge, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


@pytest.fixture
async def stage(server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
    stage = GitHubStage(server, tmp_path / "people")
    yield stage
    await stage.aclose()
    assert server.violations == []


async def test_a_worker_that_looks_every_ten_minutes_hears_of_an_issue_before(
    stage: GitHubStage, tmp_path: Path
) -> None:
    make = partial(on_forge, stage=stage, kind="github", api=stage.server.origin)
    async with served(tmp_path, make=make) as web, hooked_worker(web, stage) as told:
        home, team = web.bullpen_app.settings.home, web.team
        secret = make_hook_secret(home, TEAM)
        hooks = Webhooks(stage.state, stage.server.origin, secret)

        async def tasks(count: int) -> bool:
            return len((await team.tasks.list()).tasks) == count

        await stage.issue("The first look takes this")
        await until(partial(tasks, 1))
        # Until what the first look made due is written, and nothing happens any more.
        before = -1
        while before != stage.server.count():
            before = stage.server.count()
            await anyio.sleep(3)
        number = await stage.issue("Add a cart")
        await anyio.sleep(3)
        assert await tasks(1), "nobody told the worker"
        delivery = hooks.delivery("issues.opened", number=number)
        assert await delivery.send(f"{web.url}/forge/hook") == 202
        await until(partial(tasks, 2))
        assert await delivery.send(f"{web.url}/forge/hook") == 204, "it is a replay"
        forged = Webhooks(stage.state, stage.server.origin, "k" * 43)
        refused = forged.delivery("issues.opened", number=number)
        assert await refused.send(f"{web.url}/forge/hook") == 401
        assert told
