"""Servers that require keys, with the streams of a cell, for the suites of the NATS store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import connected
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.streams import prepare
from support.fleet.auth_stage import TENANT, KeyedCluster
from support.store.nats_parts import empty

TEAMS = ("alpha", "beta", "gamma", "Zeta")
"""Those of which the contract makes use."""

KEYS: dict[str, tuple[Role, tuple[str, ...]]] = {
    "machine": (Role.HOST, ()),
    "ann": (Role.HUMAN, ()),
    "guest": (Role.HOST, TEAMS),
    "bob": (Role.HUMAN, TEAMS),
}


@dataclass(frozen=True)
class KeyedServers:
    """The servers, and the folder of their keys."""

    cluster: KeyedCluster
    vault: Vault

    def creds(self, name: str) -> Path:
        return self.vault.directory / "tenants" / TENANT / "creds" / f"{name}.creds"

    async def empty(self) -> None:
        """Remove everything that any test left on the servers."""
        async with connected(self.cluster.url, creds=str(self.creds("admin"))) as admin:
            await empty(admin)
            for partition in self.vault.tenant(TENANT).own.values():
                await api(admin, f"STREAM.PURGE.TEAM_{partition}", None, timeout_s=10)


@contextmanager
def keyed_servers(nodes: int = 1) -> Iterator[KeyedServers]:
    """Servers with all streams and a key of each kind that writes."""
    directory = Path(tempfile.mkdtemp(prefix="bullpen-nats-"))
    vault = Vault(directory / "keys")
    vault.create()
    vault.add_tenant(TENANT)
    for name, (role, teams) in KEYS.items():
        vault.mint(TENANT, name, role, teams=teams)
    made = KeyedServers(KeyedCluster(directory / "servers", vault.directory, nodes), vault)

    async def begin() -> None:
        await made.cluster.start()
        async with connected(made.cluster.url, creds=str(made.creds("admin"))) as admin:
            await prepare(admin, partitions=2, replicas=nodes)
        assert (await push(vault, made.cluster.url)).waiting == ()

    try:
        anyio.run(begin)
        yield made
    finally:
        anyio.run(made.cluster.stop)
        shutil.rmtree(directory, ignore_errors=True)
