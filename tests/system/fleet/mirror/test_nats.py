"""The mirror of a team that lives on NATS: all that holds in memory holds on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.store import NatsStore
from chaos.mirror.test_killed import Death, before_the_mirror, both_sides_change, check, dying_home
from chaos.mirror.test_random import end_up_the_same
from support.fleet.homes import TEAM, Home, Killed, assert_same, delivered, new_team, settle
from support.store.nats_parts import empty, empty_store, servers
from unit.fleet.mirror import test_carries as test_bridge_carries
from unit.fleet.mirror import test_residents as test_bridge_residents
from unit.fleet.mirror.test_run import running, until, until_read

SOON_S = 1.0
"""How long a store waits for servers before it says that they are away."""

MANY = 5

# Their tests and fixtures once more. The `far` below takes the place of theirs.
for _suite in (test_bridge_carries, test_bridge_residents):
    globals().update(
        {name: each for name, each in vars(_suite).items() if name not in ("far", *globals())}
    )


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture
async def far(one: Cluster) -> AsyncIterator[NatsStore]:
    """A store on NATS without teams, in the place of one in memory."""
    store = await empty_store(one)
    yield store
    await store.aclose()


async def test_two_homes_and_a_team_on_nats_end_up_the_same(far: NatsStore, tmp_path: Path) -> None:
    await end_up_the_same(far, tmp_path, 250)


class DeathAtCommit(Death):
    """Ends a mirror at its n-th commit. Every other call is tried in memory."""

    def before(self, name: str) -> None:
        if name == "commit":
            super().before(name)

    def after(self, name: str) -> None:
        if name == "commit":
            super().after(name)


@pytest.mark.parametrize("after", [False, True], ids=["before-a-commit", "after-a-commit"])
async def test_killed_at_any_commit_everything_happens_once_on_nats(
    far: NatsStore, after: bool, tmp_path: Path
) -> None:
    n, killed = 0, True
    while killed:
        n += 1
        await empty(await far.link.client())
        store = NatsStore(far.link.endpoint)
        team = await before_the_mirror(store)
        home = Home(tmp_path / str(n), store)
        await settle(home)
        await both_sides_change(home, team)
        try:
            await settle(dying_home(home.path, store, DeathAtCommit(n, after=after)))
            killed = False
        except Killed:
            pass
        await check(home.again(), store, team)
        await home.aclose()
        await store.aclose()
    assert n > MANY


async def test_without_its_notes_a_mirror_finds_in_the_log_on_nats_what_it_carried(
    far: NatsStore, tmp_path: Path
) -> None:
    team = await before_the_mirror(far)
    home = Home(tmp_path, far)
    await settle(home)
    home.program.update("3", subject="By a file")
    await settle(home)
    home.program.drain("ann")
    (tmp_path / ".bullpen" / "mirrors" / f"{TEAM}.json").unlink()
    await team.tasks.edit("3", by=LEAD, subject="Later")
    again = home.again()
    await settle(again)
    assert (await team.tasks.get("3")).subject == "Later"
    assert again.program.texts("ann") == []
    await assert_same(again)
    await home.aclose()


async def test_what_was_written_while_the_server_was_dead_is_sent_once(
    one: Cluster, tmp_path: Path
) -> None:
    far = await empty_store(one, StoreLimits(lock_wait_s=SOON_S))
    team = await new_team(far)
    home = Home(tmp_path, far)
    async with running(home) as told:
        await until(lambda: told[-1].state == "in step")
        one.kill(0)
        home.program.send("ann", "bob", "Written meanwhile")
        task_id = home.program.create("Made meanwhile")
        await until(lambda: told[-1].state == "away")
        await one.restart(0)
        await until_read(team, "bob", lambda box: len(box.entries) == 1)
        await team.mailbox.send("ann", "Welcome back", sender="bob")
        await until(lambda: home.program.texts("ann") == ["Welcome back"])
        await until(lambda: told[-1].state == "in step")
    await settle(home)
    assert (await team.tasks.get(task_id)).subject == "Made meanwhile"
    assert len(await delivered(far, "bob")) == 1
    await assert_same(home)
    await far.aclose()
