"""A team on NATS looks the same, and says so when its servers are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from nats_parts import servers
from textual.pilot import Pilot
from tui_screens import ready, text_of, until
from tui_teams import ask, at, beat, hire

from bullpen.fleet.servers.process import Cluster
from bullpen.office import open_office
from bullpen.store.clock import now_ms
from bullpen.team.team import Team
from bullpen.tui.app import TeamApp
from bullpen.tui.waiting import SETTLE_S


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server with all streams."""
    with servers(1) as cluster:
        yield cluster


@asynccontextmanager
async def shown(cluster: Cluster, home: Path) -> AsyncGenerator[tuple[Pilot[None], Team], None]:
    """A team with one member on the screen."""
    async with open_office(replace(at(home), store=cluster.url)) as office:
        await office.teams.create("alpha")
        team = office.teams.open("alpha")
        await hire(team, "alice")
        await beat(team, "alice", "working", ms=now_ms(), detail="pytest -q")
        app = TeamApp(office, team=None)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            await ready(pilot)
            await until(pilot, "alice")
            yield pilot, team


async def test_a_team_on_nats_is_shown_and_answered(tmp_path: Path, cluster: Cluster) -> None:
    async with shown(cluster, tmp_path) as (pilot, team):
        request = await ask(team, "alice")
        await pilot.press("4")
        await until(pilot, "git push origin main")
        await anyio.sleep(SETTLE_S)
        await pilot.press("a")
        await until(pilot, "Nothing waits for an answer.")
        assert (await team.approvals.get(request.id)).state == "approved"


@pytest.mark.nightly
async def test_servers_that_are_gone_are_said_to_be(tmp_path: Path, cluster: Cluster) -> None:
    async with shown(cluster, tmp_path) as (pilot, _):
        cluster.kill(0)
        await until(pilot, lambda: "! " in text_of(pilot))
        assert "alice" in text_of(pilot)
