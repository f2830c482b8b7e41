"""A machine breaks or stands still: its agents are given up, fenced off, and go on elsewhere."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import anyio
import pytest

from bullpen.errors import BullpenError, Refused
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.hosted.client import HostedStore
from bullpen.team.team import Teams
from support.fleet.host_parts import Stage, cell_of, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(4) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


WORKS = """
[[agents.{name}.turns]]
when = "task"
steps = [{hang = true}]
"""


async def lost_notices(stage: Stage) -> list[str]:
    box = await stage.app.teams.open("crew").mailbox.read(LEAD, history=True)
    return [entry.message.sender for entry in box.entries if "is lost" in entry.message.text]


async def at_work(stage: Stage, name: str, *, respawn: bool) -> Task:
    """Have an agent that works on a task of its own, and never gets ready with it."""
    team = stage.app.teams.open("crew")
    await stage.spawn(name, WORKS, respawn=respawn)
    task = await team.tasks.add(f"Work of {name}", by=LEAD, owner=name)

    async def taken() -> Task | None:
        found = await team.tasks.get(task.id)
        return found if found.status == "in_progress" else None

    found: Task = await until(taken, why=f"{name} has taken its task")
    return found


async def test_the_agents_of_a_broken_machine_are_lost_once_and_go_on_elsewhere_once(
    stage: Stage,
) -> None:
    team = await stage.team()
    broken = await stage.host("broken")
    of_bob = await at_work(stage, "bob", respawn=True)
    of_alice = await at_work(stage, "alice", respawn=False)
    others = [await stage.host(name) for name in ("east", "west")]
    broken.signal_all(signal.SIGKILL)
    await until(lambda: stage.where_else("bob", "broken"), why="bob goes on")

    async def is_lost() -> bool:
        return (await stage.view("alice")).state == "lost"

    await until(is_lost, why="alice is lost")
    # Long enough for the other one to do it again, if it did.
    await anyio.sleep(4.0)
    assert sum(len(host.agents()) for host in others) == 1
    bob, alice = await stage.view("bob"), await stage.view("alice")
    assert (bob.launch, alice.launch) == (2, 1)
    assert alice.cause == "its host broken is lost"
    assert sorted(await lost_notices(stage)) == ["alice", "bob"]
    freed, again = await team.tasks.get(of_alice.id), await team.tasks.get(of_bob.id)
    assert (freed.status, freed.owner) == ("pending", None)
    assert (again.owner, again.facts.attempt) == ("bob", of_bob.facts.attempt + 1)
    states = {name: host.state for name, host in (await stage.hosts()).items()}
    assert states == {"broken": "lost", "east": "ready", "west": "ready"}


async def test_a_machine_that_stood_still_finds_its_agents_fenced_off_and_they_end(
    stage: Stage,
) -> None:
    team = await stage.team()
    frozen = await stage.host("frozen")
    task = await at_work(stage, "bob", respawn=True)
    (old,) = frozen.agents()
    token = _token(old)
    await stage.host("other")
    frozen.signal_all(signal.SIGSTOP)
    await stage.became("bob", "other")
    frozen.signal_all(signal.SIGCONT)
    # The old launch speaks up at once, with all that it had.
    async with aclosing(HostedStore(frozen.socket, token)) as store:
        before = Teams(store).open("crew")
        with pytest.raises(BullpenError):
            await before.mailbox.send(LEAD, "Still me", sender="bob")
        with pytest.raises(BullpenError):
            await before.tasks.done(task.id, by="bob", attempt=task.facts.attempt)
    await until(lambda: old not in frozen.agents(), why="the old launch ends itself")
    await until(lambda: _is_unknown(frozen.socket, token), why="its secret is void")
    kept = await team.tasks.get(task.id)
    assert (kept.owner, kept.status) == ("bob", "in_progress")
    assert kept.facts.attempt == task.facts.attempt + 1
    box = await team.mailbox.read(LEAD, history=True)
    assert not [entry for entry in box.entries if "Still me" in entry.message.text]
    bob = await stage.view("bob")
    assert (bob.launch, bob.end) == (2, None)
    assert (await stage.hosts())["frozen"].state == "ready"


async def test_an_agent_that_dies_alone_goes_on_if_it_may(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("bob", respawn=True)
    (pid,) = host.agents()
    host.signal_agents(signal.SIGKILL)

    async def goes_on() -> bool:
        return (await stage.view("bob")).launch == 2 and await stage.where("bob") == "only"

    await until(goes_on, why="bob goes on")
    assert pid not in host.agents()
    assert len(host.agents()) == 1


def _token(pid: int) -> str:
    with open(f"/proc/{pid}/environ", "rb") as file:
        rows = file.read().decode().split("\0")
    return dict(row.split("=", 1) for row in rows if row)["BULLPEN_HOST_TOKEN"]


async def _is_unknown(socket: str, token: str) -> bool:
    async with aclosing(HostedStore(socket, token)) as store:
        try:
            await store.teams()
        except Refused as error:
            return error.reason == "unknown_token"
        except BullpenError:
            return False
    return False
