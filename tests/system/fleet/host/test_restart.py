"""The host process ends and comes back, and its agents do not mind; or it hands them over."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial

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


ANSWERS = """
[[agents.{name}.turns]]
when = "mail"
contains = "Are you there?"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "Yes", message = "I am here."}},
]
"""


async def answers(stage: Stage, name: str) -> int:
    box = await stage.app.teams.open("crew").mailbox.read(LEAD, history=True)
    return sum(
        entry.message.sender == name and "I am here" in entry.message.text for entry in box.entries
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
async def test_a_host_process_that_comes_back_takes_its_agents_over(
    stage: Stage, number: signal.Signals
) -> None:
    team = await stage.team()
    host = await stage.host("only")
    names = ("alice", "bob")
    for name in names:
        await stage.spawn(name, ANSWERS)
    pids = sorted(host.agents())
    assert await host.end(number) == (-number if number == signal.SIGKILL else 0)
    for name in names:
        await team.mailbox.send(name, "Are you there?", sender=LEAD)
    await host.start()
    for name in names:
        await until(partial(answers, stage, name), why=f"{name} has answered")
    assert sorted(host.agents()) == pids
    assert [await answers(stage, name) for name in names] == [1, 1]
    assert [(await stage.view(name)).launch for name in names] == [1, 1]
    beat = (await stage.hosts())["only"].beat
    assert beat is not None
    assert beat.agents == 2


async def test_a_host_that_is_drained_hands_over_who_may_go_on_and_suspends_the_others(
    stage: Stage,
) -> None:
    team = await stage.team()
    old = await stage.host("old", "--label", "first")
    await stage.spawn("alice", on="first")
    await stage.spawn("bob", ANSWERS, respawn=True)
    new = await stage.host("new")
    assert await old.end(signal.SIGTERM) == 0
    assert old.agents() == []
    await stage.became("bob", "new")
    alice = await stage.view("alice")
    assert (alice.end, alice.cause) == ("suspended", "its machine is drained")
    assert {name: host.state for name, host in (await stage.hosts()).items()} == {
        "old": "drained",
        "new": "ready",
    }
    await team.mailbox.send("bob", "Are you there?", sender=LEAD)
    await until(lambda: answers(stage, "bob"), why="bob answers on the new host")
    assert len(new.agents()) == 1


async def test_a_host_that_is_told_twice_to_drain_leaves_at_once(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("alice")
    # Nothing can be recorded now, so that draining takes long.
    stage.cluster.pause(0)
    try:
        host.host.send_signal(signal.SIGTERM)
        with pytest.raises(AssertionError):
            await until(lambda: host.host.poll() is not None, seconds=1.0)
        assert await host.end(signal.SIGTERM) == 0
    finally:
        stage.cluster.go_on(0)
    assert "was told twice" in host.log.read_text()
    assert len(host.agents()) == 1
    os.kill(host.agents()[0], 0)
