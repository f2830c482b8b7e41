"""A cell whose keys shared one account is upgraded while its teams work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bullpen.errors import BullpenError
from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import connected, linked
from bullpen.protocol.changes import PutTask
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import config, put, task
from support.crews import eventually
from support.fleet.auth_stage import TENANT, KeyedCluster
from support.fleet.older_vault import copy_of, make_older


class Writer:
    """Writes tasks, and remembers each that was acknowledged."""

    def __init__(self, store: NatsStore, first: int) -> None:
        self.store = store
        self.first = first
        self.acknowledged: list[str] = []
        self.ends = asyncio.Event()

    async def write(self) -> None:
        number = self.first
        while not self.ends.is_set():
            number += 1
            try:
                await put(self.store, PutTask(task(str(number))))
                self.acknowledged.append(str(number))
            except BullpenError:
                # Not acknowledged.
                await asyncio.sleep(0.05)


async def test_no_acknowledged_message_is_lost_and_older_keys_are_refused(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "keys")
    vault.create()
    admin = str(vault.add_tenant(TENANT))
    make_older(vault, {"machine": Role.HOST})
    path = Path(admin).with_name("machine.creds")
    older = copy_of(path)
    async with KeyedCluster(tmp_path / "servers", vault.directory) as cluster:
        async with connected(cluster.url, creds=admin) as nc:
            await prepare(nc)
        old = NatsStore(Endpoint(tuple(cluster.urls), older))
        await old.create("alpha", config(), actor="team-lead")
        before = Writer(old, 0)
        writing = [asyncio.create_task(before.write())]
        await asyncio.sleep(0.3)

        ((key, made),) = vault.upgrade(TENANT)
        await push(vault, cluster.url)
        assert (key.name, made) == ("machine", path)
        new = NatsStore(Endpoint(tuple(cluster.urls), made))
        after = Writer(new, 100_000)
        writing.append(asyncio.create_task(after.write()))
        await asyncio.sleep(0.3)
        # A key that is bound to the team has it moved while both write.
        vault.mint(TENANT, "guest", Role.HUMAN, teams=("alpha",))
        assert (await push(vault, cluster.url)).waiting == ()
        await asyncio.sleep(0.5)
        both = len(before.acknowledged), len(after.acknowledged)
        assert [ended.name for ended in vault.finish_upgrade(TENANT)] == ["machine"]
        await push(vault, cluster.url)
        # The new key goes on, however long the server takes to connect it again.
        await eventually(lambda: len(after.acknowledged) > both[1])
        await asyncio.sleep(0.5)
        for writer in (before, after):
            writer.ends.set()
        await asyncio.gather(*writing)

        assert all(both)
        bob = NatsStore(Endpoint(tuple(cluster.urls), path.with_name("guest.creds")))
        for store in (new, bob):
            kept = set((await store.read("alpha")).tasks)
            assert set(before.acknowledged) | set(after.acknowledged) <= kept
        for store in (old, new, bob):
            await store.aclose()
        with pytest.raises(BullpenError, match="revoked"):
            async with linked(cluster.url, creds=str(older)) as link:
                await link.client()
