"""A server with two tenants, the streams of a cell in each, and a key of every role."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Unavailable
from bullpen.fleet.auth.resolver import include_text
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.nats.client.streams import give_own, prepare

DEADLINE_S = 20.0

TENANT = "acme"
RIVAL = "rival"
OWN = "t.100.alpha.u1"
OWN_STREAM = "TEAM_100"
FOREIGN = "t.00.gamma.u2"
FORGETS = ("KV_BEATS", "PRES", "PRES_100", "PRES_101", "ORDERS")

KEYS: dict[str, tuple[Role, tuple[str, ...]]] = {
    "machine": (Role.HOST, ()),
    "other": (Role.HOST, ()),
    "guest": (Role.HOST, ("alpha", "Beta!")),
    "ann": (Role.HUMAN, ()),
    "bob": (Role.HUMAN, ("alpha",)),
    "wall": (Role.READ_ONLY, ()),
    "pane": (Role.READ_ONLY, ("alpha",)),
}


class KeyedCluster(Cluster):
    """Servers that take the keys of a folder; each keeps the accounts it knows for itself."""

    def __init__(self, directory: Path, keys: Path, nodes: int = 1, *, more: str = "") -> None:
        super().__init__(directory, nodes, sync="2m")
        self._keys = keys
        self._more = more

    def _launch(self, index: int, *, binary: Path | None = None) -> None:
        accounts = self.nodes[index].directory / "accounts"
        self.extra = include_text(self._keys, resolver=accounts) + self._more
        super()._launch(index, binary=binary)


@dataclass
class Caller:
    """One connection, and what the server complained of on it."""

    nc: Client
    complaints: list[str] = field(default_factory=list)

    async def refused(self, kind: str, subject: str) -> None:
        """Wait until the server has refused a publication to, or subscription of, a subject."""
        wanted = f'permissions violation for {kind} to "{subject}"'.casefold()
        await until(lambda: any(wanted in each.casefold() for each in self.complaints), self)

    async def ask(self, subject: str, body: object = b"", **headers: str) -> Msg:
        """Ask, and expect an answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return await self.nc.request(subject, data, timeout=DEADLINE_S, headers=named or None)

    async def api(self, call: str, body: object = b"") -> dict[str, Any]:
        """Ask the JetStream API."""
        answer: dict[str, Any] = json.loads((await self.ask(f"$JS.API.{call}", body)).data)
        return answer

    async def batch(self, stream: str, body: object) -> list[Msg]:
        """What a batched direct get brings."""
        inbox = self.nc.new_inbox()
        subscription = await self.nc.subscribe(inbox)
        await self.nc.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(body).encode(), inbox)
        found = []
        while "Status" not in ((message := await subscription.next_msg(DEADLINE_S)).headers or {}):
            found.append(message)
        return found

    async def stored(self, subject: str, body: object = b"x", **headers: str) -> int:
        """Store a message, and expect that it is."""
        answer = json.loads((await self.ask(subject, body, **headers)).data)
        assert "seq" in answer, answer
        return int(answer["seq"])


@dataclass(frozen=True)
class Stage:
    """Where the server is, and where the keys are."""

    url: str
    vault: Vault
    cluster: KeyedCluster

    def creds(self, name: str, tenant: str = TENANT) -> Path:
        return self.vault.directory / "tenants" / tenant / "creds" / f"{name}.creds"

    @asynccontextmanager
    async def connected(
        self, name: str, tenant: str = TENANT, *, creds: Path | None = None, **options: Any
    ) -> AsyncIterator[Caller]:
        async with connected(
            self.url, creds or self.creds(name, tenant), name=name, **options
        ) as caller:
            yield caller


@asynccontextmanager
async def connected(
    url: str, creds: Path | None, *, name: str = "", **options: Any
) -> AsyncIterator[Caller]:
    complaints: list[str] = []

    async def complain(error: Exception) -> None:
        complaints.append(str(error))

    if creds is not None:
        options["user_credentials"] = str(creds)
    client = Client()
    try:
        await client.connect(
            url.split(","),
            error_cb=complain,
            inbox_prefix=f"_INBOX_{name}" if name else "_INBOX",
            **{"allow_reconnect": False, "connect_timeout": 10, **options},
        )
        yield Caller(client, complaints)
    finally:
        # After a handshake that failed the library never ends closing; a connection that was
        # refused it lets go of without closing it.
        with suppress(TimeoutError):
            await asyncio.wait_for(client.close(), DEADLINE_S)
        transport: Any = client._transport
        if transport is not None:
            transport.close()
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(transport.wait_closed(), 1)


@contextmanager
def staged(directory: Path) -> Iterator[Stage]:
    """The server for as long as a module's tests run; each test has a loop of its own."""
    vault = Vault(directory / "keys")
    vault.create()
    for tenant in (TENANT, RIVAL):
        vault.add_tenant(tenant)
        for name, (role, teams) in KEYS.items():
            vault.mint(tenant, name, role, teams=teams)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            KeyedCluster(directory / "servers", vault.directory)
        ) as cluster,
    ):
        assert isinstance(cluster, KeyedCluster)
        stage = Stage(cluster.url, vault, cluster)
        for tenant in (TENANT, RIVAL):
            portal.call(fill, stage, tenant)
        yield stage


async def fill(stage: Stage, tenant: str) -> None:
    """Put two teams, two hosts and a spawn request into a tenant."""
    async with stage.connected("admin", tenant) as admin:
        await _prepare(admin)
        for name, partition in stage.vault.tenant(tenant).own.items():
            assert await give_own(admin.nc, name, partition)
        for place, team in ((OWN, "alpha"), (FOREIGN, "gamma")):
            for kind in ("log", "sync", "h.1"):
                await admin.stored(f"{place}.{kind}", f"{tenant} {team} {kind}".encode())
            _, number, _, uid = place.split(".")
            entry = {"name": team, "p": int(number), "uid": uid}
            await admin.stored(f"$KV.TEAMS.team.{team}", entry)
            await admin.stored(f"p.{team}.u.other.s1")
        await admin.stored("q.100.alpha.u.other.s1")
        await admin.stored("t.01._42eta.u3.log")
        for host in ("machine", "other"):
            await admin.stored(f"$KV.HOSTS.host.{host}")
            await admin.stored(f"$KV.BEATS.host.{host}")
        await admin.stored("start.any.n1", b"please")


async def _prepare(admin: Caller) -> None:
    """Make the streams; a cluster may not have made the account's folders yet when first asked."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await prepare(admin.nc, partitions=2)
        except Unavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def state(admin: Caller) -> dict[str, Any]:
    """All that a forbidden action could change: streams, their consumers, their messages."""
    found: dict[str, Any] = {}
    listed = (await admin.api("STREAM.LIST"))["streams"]
    for stream in listed:
        name = stream["config"]["name"]
        kept = stream["state"]
        # What these forget by themselves, they may forget meanwhile.
        counted = () if name in FORGETS else (kept["messages"], kept["first_seq"])
        consumers = (await admin.api(f"CONSUMER.LIST.{name}"))["consumers"]
        names = [each["name"] for each in consumers]
        found[name] = (stream["config"], kept["last_seq"], counted, names)
    return found


async def messages(admin: Caller) -> dict[tuple[str, int], tuple[str, bytes]]:
    """Every message of every stream by its sequence: its subject and its data."""
    found: dict[tuple[str, int], tuple[str, bytes]] = {}
    for stream in (await admin.api("STREAM.NAMES"))["streams"]:
        first = 1
        while rows := await admin.batch(stream, {"seq": first, "batch": 500, "next_by_subj": ">"}):
            for row in rows:
                headers = row.headers or {}
                first = int(headers["Nats-Sequence"]) + 1
                found[stream, first - 1] = (headers["Nats-Subject"], row.data)
    return found


async def until(holds: Callable[[], bool], about: object = "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, about
        await asyncio.sleep(0.005)


Act = Callable[[Caller], Awaitable[object]]
