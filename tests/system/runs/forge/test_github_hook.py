"""A signed delivery of the stand-in for GitHub makes a worker look that would wait for minutes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.app.app import App
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect
from bullpen.runs.forge.webhooks.hints import Hints, make_hook_secret
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.team.team import Team
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.github.webhooks import Webhooks
from support.doors.web_stage import TEAM, served
from support.git.repositories import git

POLL_S = 600
SOON_S = 30.0
"""Far less than the worker waits, and enough for a busy machine."""


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


async def on_forge(app: App, *, cwd: Path, stage: GitHubStage) -> Team:
    """A team that works on the stand-in, and looks every ten minutes."""
    clone = cwd / "clone"
    git(cwd, "clone", "--quiet", str(stage.state.git.folder), str(clone))
    await app.teams.create(TEAM)
    team = app.teams.open(TEAM)
    gate = MergeSettings.new(repository=str(clone), target="main")
    await team.merges.configure(gate, by=LEAD, voice="human")
    page = f"{stage.server.origin}/{stage.owner}/{stage.name}"
    said: dict[str, Any] = {"repository": page, "kind": "github", "api": stage.server.origin}
    settings = ForgeSettings.new(**said, poll_s=POLL_S)
    await team.forge.configure(settings, by=LEAD, voice="human")
    return team


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            if await what():
                return
            await anyio.sleep(0.1)


async def test_a_worker_that_looks_every_ten_minutes_hears_of_an_issue_at_once(
    stage: GitHubStage, tmp_path: Path
) -> None:
    make = partial(on_forge, stage=stage)
    async with served(tmp_path, make=make) as web, anyio.create_task_group() as group:
        home, team = web.bullpen_app.settings.home, web.team
        secret = make_hook_secret(home, TEAM)
        hooks = Webhooks(stage.state, stage.server.origin, secret)
        environ = {FORGE_TOKEN: stage.token("team")}
        worker = ForgeWorker(
            team,
            partial(connect, team=team, home=home, environ=environ),
            hints=Hints(home, TEAM),
        )
        told: list[str] = []
        group.start_soon(worker.run, told.append)

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
        began = time.monotonic()
        assert await delivery.send(f"{web.url}/forge/hook") == 202
        await until(partial(tasks, 2))
        assert time.monotonic() - began < SOON_S
        assert await delivery.send(f"{web.url}/forge/hook") == 204, "it is a replay"
        forged = Webhooks(stage.state, stage.server.origin, "k" * 43)
        refused = forged.delivery("issues.opened", number=number)
        assert await refused.send(f"{web.url}/forge/hook") == 401
        assert told
        group.cancel_scope.cancel()
