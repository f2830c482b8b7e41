"""The servers go away and come back: nobody is given up for it, and everything goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from support.fleet.host_parts import Stage, cell_of, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(4) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


ANSWERS = """
[[agents.{name}.turns]]
when = "mail"
contains = "Are you there?"
repeat = true
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "Yes", message = "I am here."}},
]
"""


async def test_an_outage_longer_than_a_heartbeat_is_kept_loses_nobody(stage: Stage) -> None:
    team = await stage.team()
    hosts = [await stage.host(name, "--label", f"site={name}") for name in ("east", "west")]
    for name in ("east", "west"):
        await stage.spawn(f"of-{name}", ANSWERS, on=f"site={name}", respawn=True)
    pids = [host.agents() for host in hosts]
    # So long that either of them believes in what it sees.
    await anyio.sleep(5.0)
    stage.cluster.pause(0)
    await anyio.sleep(6.0)
    stage.cluster.go_on(0)

    async def all_ready() -> bool:
        states = [host.state for host in (await stage.hosts()).values()]
        return states == ["ready", "ready"]

    await until(all_ready, why="both hosts are heard again")
    for name in ("east", "west"):
        await team.mailbox.send(f"of-{name}", "Are you there?", sender=LEAD)

    async def all_answered() -> bool:
        box = await team.mailbox.read(LEAD, history=True)
        said = [entry.message.sender for entry in box.entries if "am here" in entry.message.text]
        return sorted(said) == ["of-east", "of-west"]

    await until(all_answered, why="both agents answer")
    # Long enough for a host that was wrong about the other to act on it.
    await anyio.sleep(5.0)
    assert [host.agents() for host in hosts] == pids
    for name in ("of-east", "of-west"):
        view = await stage.view(name)
        assert (view.launch, view.end) == (1, None)
    assert [host.host.poll() for host in hosts] == [None, None]
