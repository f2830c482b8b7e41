"""A team on NATS looks the same, and says so when its servers are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot

from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.prompt.ask_bar import SETTLE_S
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.clock import now_ms
from bullpen.team.team import Team
from support.doors.tui_screens import ready, text_of, until
from support.doors.tui_teams import ask, at, beat, hire
from support.store.nats_parts import servers


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server with all streams."""
    with servers(1) as cluster:
        yield cluster


@asynccontextmanager
async def shown(cluster: Cluster, home: Path) -> AsyncGenerator[tuple[Pilot[None], Team], None]:
    """A team with one member on the screen."""
    async with LateApp(replace(at(home), store=cluster.url)) as late_app:
        await late_app.teams.create("alpha")
        team = late_app.teams.open("alpha")
        await hire(team, "alice")
        await beat(team, "alice", "working", ms=now_ms(), detail="pytest -q")
        app = TeamApp(late_app, team=None)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            await ready(pilot)
            await until(pilot, "alice")
            yield pilot, team


async def test_a_team_on_nats_is_shown_and_answered(tmp_path: Path, cluster: Cluster) -> None:
    async with shown(cluster, tmp_path) as (pilot, team):
        request = await ask(team, "alice")
        await until(pilot, "alice wants to run: git push origin main")
        await anyio.sleep(SETTLE_S)
        await pilot.press("a")
        await until(pilot, lambda: "wants to run" not in text_of(pilot))
        assert (await team.approvals.get(request.id)).state == "approved"


@pytest.mark.nightly
async def test_servers_that_are_gone_are_said_to_be(tmp_path: Path, cluster: Cluster) -> None:
    async with shown(cluster, tmp_path) as (pilot, _):
        cluster.kill(0)
        await until(pilot, lambda: "! " in text_of(pilot))
        assert "alice" in text_of(pilot)
