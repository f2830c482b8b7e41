"""A lead on one host, its teammates beside it and elsewhere: they work as one team."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from support.fleet.host_parts import Stage, cell_of, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(12) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


THREE = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Near work", description = "Do it."}},
  {tool = "TaskCreate", input = {subject = "Far work", description = "Do it."}},
  {tool = "SpawnTeammate", input = {name = "near", prompt = "Work near."}},
  {tool = "SpawnTeammate", input = {name = "far", prompt = "Work far.", on = "site=far"}},
  {say = "Both are at work."},
]

[[agents.team-lead.turns]]
when = "mail"
from = "near"
contains = "far wrote"
steps = [
  {tool = "StopTeammate", input = {name = "far"}},
  {tool = "Finish", input = {summary = "Near and far are done."}},
]

[[agents.far.turns]]
when = "task"
task = "Far work"
steps = [
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {tool = "SendMessage", input = {to = "near", summary = "Far", message = "The far work is done."}},
]

[[agents.near.turns]]
when = "task"
task = "Near work"
steps = [
  {wait_mail = {from = "far", contains = "far work is done", seconds = 50.0}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {tool = "SendMessage", input = {to = "team-lead", summary = "Near", message = "far wrote."}},
]
"""


async def test_a_lead_has_teammates_beside_it_and_on_another_host_and_they_finish(
    stage: Stage,
) -> None:
    team = await stage.team()
    home = await stage.host("home", "--label", "site=near")
    await stage.host("away", "--label", "site=far")
    await stage.spawn(LEAD, THREE, on="site=near", prompt="Have it done.", mode="bypassPermissions")
    result = await until(team.agents.result, why="the lead says that all is done")
    assert result.summary == "Near and far are done."
    assert [task.status for task in (await team.tasks.list()).tasks] == ["completed"] * 2
    config = await team.agents.config()
    places = {m.name: m.agent.process.host for m in config.roster if m.agent and m.agent.process}
    assert places == {LEAD: "home", "near": "home", "far": "away"}
    far = config.member("far")
    assert far is not None and far.agent is not None
    assert (far.agent.parent, far.agent.end) == (LEAD, "stopped")

    async def is_counted() -> bool:
        beat = (await stage.hosts())["home"].beat
        return beat is not None and beat.agents == len(home.agents())

    await until(is_counted, why="who was spawned beside the lead counts too")
