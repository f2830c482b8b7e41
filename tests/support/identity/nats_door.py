"""Rows of NATS: each operation with each kind of key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import connected
from bullpen.store.contract import Store
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.streams import give_own, prepare
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Teams
from support.fleet.auth_stage import RIVAL, TENANT, KeyedCluster

from .acts import ACTS, Through
from .cast import ACTORS, OTHER_TEAM, TEAM, Actor, Identity
from .expected import OPERATIONS
from .operations import done_by, prepared, state_of
from .rows import Row, Seen, Verdict, tried
from .scene import Clock, Scene, fresh

_KEYS: Mapping[Identity, tuple[str, str, Role, tuple[str, ...]]] = {
    Identity.PERSON: (TENANT, "ann", Role.HUMAN, ()),
    Identity.HOST: (TENANT, "machine", Role.HOST, ()),
    Identity.BOUND: (TENANT, "bob", Role.HUMAN, (TEAM,)),
    Identity.READ_ONLY: (TENANT, "wall", Role.READ_ONLY, ()),
    Identity.BOUND_READ_ONLY: (TENANT, "pane", Role.READ_ONLY, (TEAM,)),
    Identity.OTHER_TEAM: (TENANT, "bea", Role.HUMAN, (OTHER_TEAM,)),
    Identity.OTHER_TENANT: (RIVAL, "ann", Role.HUMAN, ()),
}
_LOOKS = frozenset({"tasks.provable", "agents.waiting", "plans.settle"})
"""What only reads, if there is nothing to do."""

_WRITERS = frozenset({Identity.PERSON, Identity.HOST, Identity.BOUND})


@dataclass(frozen=True)
class NatsDoor:
    """A server with a key for each identity, as stores."""

    stores: Mapping[Identity, Store]

    @property
    def operator(self) -> Store:
        """The store of somebody who may do everything."""
        return self.stores[Identity.HOST]

    async def perform(self, rows: Sequence[Row]) -> list[Seen]:
        """Try each row on a fresh team; those that a server does not answer all at once."""
        seen = [await self._one(row) for row in rows if not _is_slow(row)]
        slow = [row for row in rows if _is_slow(row)]
        scene = await self._fresh(lead_runs=True)
        before = await state_of(scene)
        refusals = await asyncio.gather(*(self._refusal(row, scene) for row in slow))
        changed = await state_of(scene) != before
        return [*seen, *(Seen(row, why, changed) for row, why in zip(slow, refusals, strict=True))]

    async def _one(self, row: Row) -> Seen:
        act = ACTS[row.what]
        scene = await self._fresh(lead_runs=act.lead_runs)
        await prepared(act, scene, _who(row.what))
        return await done_by(row, act, scene, self._through(row, scene), _who(row.what))

    async def _refusal(self, row: Row, scene: Scene) -> str | None:
        who, at = _who(row.what), self._through(row, scene)
        return await tried(lambda: ACTS[row.what].run(scene, at, who))

    async def _fresh(self, *, lead_runs: bool) -> Scene:
        for name in await self.operator.teams():
            await self.operator.delete(name, actor="test")
        return await fresh(self.operator, Clock(), lead_runs=lead_runs)

    def _through(self, row: Row, scene: Scene) -> Through:
        return Through(Teams(self.stores[row.identity], clock=scene.clock), TEAM)


def _is_slow(row: Row) -> bool:
    """Whether a server leaves it without an answer, so that the store waits."""
    bound = row.identity in (Identity.BOUND, Identity.BOUND_READ_ONLY)
    return row.identity is Identity.OTHER_TEAM or (bound and row.what == "teams.create")


def rows(what: str) -> list[Row]:
    """The rows of the keys. A key says which teams it is for; whose name it uses is not checked."""
    writers = _WRITERS - {Identity.BOUND} if what == "teams.create" else _WRITERS
    return [Row("NATS", what, each, "own name", _verdict(what, each, writers)) for each in _KEYS]


def _verdict(what: str, identity: Identity, writers: frozenset[Identity]) -> Verdict:
    if what in _LOOKS and identity in (Identity.READ_ONLY, Identity.BOUND_READ_ONLY):
        return "let in"
    return "done" if identity in writers else "refused"


def _who(what: str) -> Actor:
    """In whose name the holder of a key does it: a key may use any name of its teams."""
    return ACTORS[Identity.OWNER if OPERATIONS[what] == "asker" else Identity.PERSON]


@asynccontextmanager
async def nats_door(directory: Path) -> AsyncIterator[NatsDoor]:
    """A server, its tenants and keys, for as long as the tests of it run."""
    vault = Vault(directory / "keys")
    vault.create()
    admins = {tenant: vault.add_tenant(tenant) for tenant in (TENANT, RIVAL)}
    for tenant, name, role, teams in _KEYS.values():
        vault.mint(tenant, name, role, teams=teams)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            KeyedCluster(directory / "servers", vault.directory)
        )
        for tenant, admin in admins.items():
            async with connected(cluster.url, creds=str(admin)) as nc:
                await prepare(nc, partitions=2)
                for name, partition in vault.tenant(tenant).own.items():
                    assert await give_own(nc, name, partition)
        stores = {}
        for identity, (tenant, name, _, _) in _KEYS.items():
            creds = str(admins[tenant].parent / f"{name}.creds")
            store = NatsStore(Endpoint.parse(cluster.url, creds=creds), host="here")
            stack.push_async_callback(store.aclose)
            stores[identity] = store
        yield NatsDoor(stores)
