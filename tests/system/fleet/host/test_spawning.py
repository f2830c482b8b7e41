"""Agents that ask for a machine: the right one starts them, once, or whoever asked is told why."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.contracts.machines import OneMachine
from bullpen.agents.supervisor.start import Spawned, Starter
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.errors import BullpenError, NotFound, StartFailed
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from support.fleet.host_parts import QUIET, Stage, cell_of, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(12) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


async def test_only_a_host_that_has_all_labels_takes_an_agent(stage: Stage) -> None:
    await stage.team()
    await stage.host("plain", "--label", "repo=web")
    await stage.host("rich", "--label", "repo=web,gpu=a100", "--label", "gpu=h100")
    spawned = await stage.spawn("alice", on="repo=web,gpu=h100")
    assert spawned.place is not None
    assert spawned.place.host == "rich"


async def test_a_host_with_too_little_memory_takes_nobody(stage: Stage) -> None:
    team = await stage.team()
    await stage.host("small", "--memory", str(2**40))
    with pytest.raises(StartFailed, match=r"No machine took it in time.* small"):
        await stage.spawn("alice", wait_s=2.0)
    with pytest.raises(NotFound):
        await team.agents.get("alice")


async def test_a_full_host_takes_the_next_agent_when_another_has_ended(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only", "--agents", "1")
    await stage.spawn("alice")
    async with anyio.create_task_group() as group:
        group.start_soon(stage.spawn, "bob")
        # Long enough for a host that does not count to take it.
        await anyio.sleep(2.0)
        assert await stage.where("bob") is None
        assert len(host.agents()) == 1
        await stage.app.supervisor("crew").stop("alice", by=LEAD)
    assert await stage.where("bob") == "only"


async def test_a_call_that_is_given_up_when_a_host_has_made_it_ready_takes_it_from_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others with its key may have got it already."""
    team = await stage.team()
    host = await stage.host("only")
    handshake, ready = Starter._handshake, anyio.Event()

    async def slow(self: Starter, *given: Any, **named: Any) -> ProcessRecord | None:
        place = await handshake(self, *given, **named)
        ready.set()
        await anyio.sleep_forever()
        return place

    monkeypatch.setattr(Starter, "_handshake", slow)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(stage.spawn, "alice", key="the-key"))
        await ready.wait()
        group.cancel_scope.cancel()
    assert [member.name for member, _ in await team.agents.living()] == ["alice"]
    assert len(host.agents()) == 1


async def test_two_hosts_start_each_of_twenty_requests_once_and_never_more_than_they_may(
    stage: Stage,
) -> None:
    team = await stage.team()
    hosts = [await stage.host(name, "--agents", "10") for name in ("east", "west")]
    names = [f"agent{number:02}" for number in range(20)]
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(stage.spawn, name)
    living = [agent for _, agent in await team.agents.living()]
    places = Counter(agent.process.host for agent in living if agent.process is not None)
    assert places == {"east": 10, "west": 10}
    assert [len(host.agents()) for host in hosts] == [10, 10]
    ready = [event for event in await stage.events() if event.op == "agent.ready"]
    assert sorted(event.actor for event in ready) == names


async def test_the_same_key_is_one_agent_on_one_host(stage: Stage) -> None:
    await stage.team()
    hosts = [await stage.host(name) for name in ("east", "west")]
    got: list[Spawned] = []

    async def spawn() -> None:
        got.append(await stage.spawn("alice", key="the-key"))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(spawn)
    assert sorted(each.fresh for each in got) == [False] * 4 + [True]
    assert len({each.place for each in got}) == 1
    assert sum(len(host.agents()) for host in hosts) == 1


async def test_an_agent_that_is_started_again_at_once_is_taken_again(stage: Stage) -> None:
    await stage.team()
    await stage.host("only")
    await stage.spawn("alice")
    supervisor = stage.app.supervisor("crew")
    await supervisor.stop("alice", by=LEAD)
    # The host has just looked, and has not heard of the new launch.
    await supervisor.resume(by=LEAD, names=["alice"], ready_s=15.0)
    assert await stage.where("alice") == "only"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"cwd": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"driver": "codex"}, "codex"),
        ({"script": "[agents.zoe]\n"}, "zoe"),
    ],
    ids=["directory", "program", "script"],
)
async def test_a_start_that_fails_on_its_host_is_told_to_whoever_asked(
    stage: Stage, asked: Mapping[str, Any], why: str
) -> None:
    team = await stage.team()
    host = await stage.host("only")
    given = dict(asked)
    with pytest.raises(StartFailed, match=why):
        await stage.spawn("alice", given.pop("script", QUIET), **given)
    with pytest.raises(NotFound):
        await team.agents.get("alice")
    await until(lambda: not host.agents(), why="nothing of it is left")


async def test_the_last_screen_of_a_start_that_failed_elsewhere_reaches_whoever_asked(
    stage: Stage,
) -> None:
    team = await stage.team()
    program = ("sh", "-c", "echo there is no licence; exit 3")
    elsewhere = Supervisor(
        team,
        home=stage.folder / "elsewhere",
        backends={"subprocess": Detached()},
        environ={},
        check=lambda spec, in_money: None,
        hosts=OneMachine({}),
        program=program,
    )
    failed: list[StartFailed] = []

    async def ask() -> None:
        with pytest.raises(StartFailed) as caught:
            await stage.spawn("alice")
        failed.append(caught.value)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        nonce = await until(lambda: _nonce(stage, "alice"), why="alice is registered")
        with pytest.raises(BullpenError):
            await elsewhere.starter.take("alice", nonce, by=LEAD)
    assert "ended before it was ready" in failed[0].message
    assert failed[0].screen == "there is no licence"


async def _nonce(stage: Stage, name: str) -> str | None:
    try:
        _, agent = await stage.app.teams.open("crew").agents.get(name)
    except NotFound:
        return None
    return agent.nonce
