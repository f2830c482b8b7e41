"""What people see of hosts, and how they stop agents that run elsewhere."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.errors import Unavailable
from bullpen.fleet.host.daemon import Host
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from support.doors.json_shapes import fitting
from support.fleet.host_parts import Stage, cell_of, desk_settings, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(4) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


async def test_an_agent_is_seen_and_stopped_from_a_machine_without_a_host(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("bob")
    desk = stage.machine("laptop")
    seen = json.loads((await desk.run("ps", "--json")).stdout)
    (place,) = [agent["place"] for agent in seen["agents"] if agent["name"] == "bob"]
    assert (place["host"], [place["pid"]]) == ("only", host.agents())
    stopped = await desk.run("stop", "bob")
    assert stopped.returncode == 0, stopped.stderr
    assert host.agents() == []
    assert (await stage.view("bob")).end == "stopped"


async def test_an_order_that_takes_long_does_not_keep_others_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = anyio.Event(), anyio.Event()

    async def end_here(self: Supervisor, name: str, nonce: str, *, grace_s: float) -> None:
        if name == "slow":
            begun.set()
            await release.wait()

    monkeypatch.setattr(Supervisor, "end_here", end_here)
    ready = anyio.Event()
    host = Host(desk_settings(stage.cluster, stage.folder), {})
    hosts = stage.app.hosts
    place = ProcessRecord.new(backend="subprocess", host=host.name)

    async def stop(name: str) -> None:
        await hosts.stop(place, "crew", name, "nonce", grace_s=20.0)

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: host.run(ready=ready.set))
        await ready.wait()
        async with anyio.create_task_group() as orders:
            orders.start_soon(stop, "slow")
            await begun.wait()
            with anyio.fail_after(15):
                await stop("quick")
            release.set()
        group.cancel_scope.cancel()


async def test_a_stop_that_cannot_reach_the_host_says_so(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("bob")
    await host.end(signal.SIGKILL)
    with pytest.raises(Unavailable, match="The host 'only' does not answer"):
        await stage.app.supervisor("crew").stop("bob", by=LEAD)


async def test_hosts_are_shown_and_forgotten_when_they_are_gone(stage: Stage) -> None:
    desk = stage.machine("laptop")
    assert "No hosts" in (await desk.run("hosts")).stdout
    host = await stage.host("only", "--label", "gpu=a100", "--agents", "3")
    shown = (await desk.run("hosts")).stdout
    assert "only" in shown and "ready" in shown and "0/3" in shown and "gpu=a100" in shown
    alive = await desk.run("host", "forget", "only")
    assert alive.returncode != 0
    assert "is running" in alive.stderr
    await host.end(signal.SIGKILL)

    async def is_lost() -> bool:
        return (await stage.hosts())["only"].state == "lost"

    await until(is_lost, why="the host is lost")
    (row,) = fitting((await desk.run("hosts", "--json")).stdout)["hosts"]
    assert (row["name"], row["state"], row["alive"], row["beat"]) == ("only", "lost", False, None)
    assert (await desk.run("host", "forget", "only")).returncode == 0
    assert await stage.hosts() == {}
    unknown = await desk.run("host", "forget", "only")
    assert "There is no host 'only'" in unknown.stderr


async def test_a_host_that_was_forgotten_but_lives_is_known_again(stage: Stage) -> None:
    host = await stage.host("only")
    host.host.send_signal(signal.SIGSTOP)

    async def is_lost() -> bool:
        return (await stage.hosts())["only"].state == "lost"

    await until(is_lost, why="the host is lost")
    assert (await stage.machine("laptop").run("host", "forget", "only")).returncode == 0
    host.host.send_signal(signal.SIGCONT)

    async def is_back() -> bool:
        found = (await stage.hosts()).get("only")
        return found is not None and found.state == "ready"

    await until(is_back, why="the host is known again")


async def test_a_command_on_a_hosts_machine_goes_through_the_host(stage: Stage) -> None:
    """It sees at once what others stored, and needs no host when that is killed or stopped."""
    team = await stage.team()
    host = await stage.host("only")
    host.env["PYTHONPROFILEIMPORTTIME"] = "1"

    async def listed(*, through_host: bool) -> list[str]:
        done = await host.run("task", "list", "--json")
        assert done.returncode == 0, done.stderr
        assert (" nats.aio.client\n" not in done.stderr) is through_host, done.stderr
        return [row["subject"] for row in json.loads(done.stdout)["tasks"]]

    assert await listed(through_host=True) == []
    await team.tasks.add("Paint", by=LEAD)
    assert await listed(through_host=True) == ["Paint"]
    added = await host.run("task", "add", "Sand")
    assert added.returncode == 0, added.stderr
    assert {task.subject for task in (await team.tasks.list()).tasks} == {"Paint", "Sand"}
    host.host.send_signal(signal.SIGSTOP)
    assert await listed(through_host=False) == ["Paint", "Sand"]
    host.host.send_signal(signal.SIGCONT)
    assert await listed(through_host=True) == ["Paint", "Sand"]
    await host.end(signal.SIGKILL)
    assert await listed(through_host=False) == ["Paint", "Sand"]
