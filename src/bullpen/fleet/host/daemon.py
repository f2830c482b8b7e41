"""The host process: it connects the agents of its machine, starts those that ask for a machine
like it, says that it is there, and sees to those that others lost.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.agents import processes
from bullpen.agents.hosts.over_nats import known_hosts, order_subject, record_key
from bullpen.agents.hosts.records import HostBeat, HostOrder, HostRecord, own_labels
from bullpen.app import CA, CREDS, HOST_TOKEN, STORE, Settings
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Unavailable
from bullpen.fleet.host.asked import Asked, HostsOfDaemon
from bullpen.fleet.host.heart import Heart, pace_of
from bullpen.fleet.host.launches import Launches
from bullpen.fleet.host.machine import found_labels, free_memory_mb
from bullpen.fleet.host.starting import Starting
from bullpen.fleet.host.undertaker import Undertaker
from bullpen.office import Office
from bullpen.protocol import jsontext
from bullpen.protocol.names import LEAD
from bullpen.store.clock import Clock, now_ms
from bullpen.store.hosted.identities import OPERATOR, Identities
from bullpen.store.hosted.place import socket_in
from bullpen.store.hosted.server import HostDoor
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Endpoint
from bullpen.store.nats.store import NatsStore
from bullpen.store.nats.subjects import token
from bullpen.store.nats.wire import ApiError, NoAnswer

_log = logging.getLogger(__name__)

_BELIEVE_S = 1.0
_TRY_S = 5.0
_DRAIN_S = 10.0
_NOT_FOR_AGENTS = frozenset({STORE, CREDS, CA, HOST_TOKEN})
"""What agents must not get from the environment of their host, whoever asks for it."""


class Host:
    """The host process of this machine. `run` is all there is to do with it."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        labels: Sequence[str] = (),
        agents_max: int = 10,
        memory_mb_min: int = 512,
        clock: Clock = now_ms,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        endpoint = Endpoint.parse(settings.store or "", creds=settings.creds, ca=settings.ca)
        self.name = processes.host_name()
        self._clock = clock
        self._tell = tell
        self._folder = socket_in(settings.home).parent
        self._store = NatsStore(endpoint, host=self.name, believe_s=_BELIEVE_S)
        self._link = self._store.link
        self._record = HostRecord.new(
            name=self.name,
            labels=own_labels(labels, found_labels(environ)),
            agents_max=agents_max,
            memory_mb_min=memory_mb_min,
            started_ms=clock(),
            pid=os.getpid(),
            version=version("bullpen"),
        )
        self._teams: set[str] = set()
        self._draining = False
        self._heart = Heart(self._link, self.name, self._beat_now)
        socket = str(socket_in(settings.home))
        self._hosts = HostsOfDaemon(self._link, socket)
        self._office = Office(
            replace(settings, agent=LEAD),
            {name: value for name, value in environ.items() if name not in _NOT_FOR_AGENTS},
            store=self._store,
            hosts=self._hosts,
            inside=False,
        )
        self._identities = Identities(self._folder / "identities.json")
        self._launches = Launches(self.name, self._office.teams, self._identities, self._heart)
        self._hosts.launches = self._launches
        asked = Asked(self._store, self._hosts, self._join)
        self._door = HostDoor(self._store, socket, self._launches, asked=asked)
        self._starting = Starting(
            self._link,
            self._office,
            self._launches,
            itself=lambda: (self._record, self._beat_now()),
            join=self._join,
            tell=tell,
        )
        self._undertaker = Undertaker(self.name, self._link, self._office, self._heart)

    async def run(self, *, ready: Callable[[], None] = lambda: None) -> str:
        """Be the host of this machine until a signal says otherwise; says how it ended.

        SIGTERM drains it: its agents are stopped, and those that may go on elsewhere do. SIGINT
        and SIGHUP end only the process: its agents go on, and the next one takes them over.

        Raises:
            Conflict: there is a host process already.
            Invalid: the credentials are those of another host.
            Unavailable: the servers do not answer.
        """
        self._check_bearer()
        try:
            with _only_one(self._folder):
                await self._begin()
                async with self._door, anyio.create_task_group() as group:
                    await self._go_on(group)
                    ready()
                    ended = await self._obey_signals()
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._office.__aexit__(None, None, None)
        return ended

    def _check_bearer(self) -> None:
        bearer = self._link.bearer.name
        if bearer is not None and bearer != token(self.name):
            raise Invalid(
                f"These credentials are for {bearer!r}, and this host is {self.name!r}.",
                remedy=f"Set BULLPEN_HOST={bearer}, or mint credentials for {self.name}.",
            )

    async def _begin(self) -> None:
        """Leave the secret for the user of this machine, and find the agents that run here."""
        await self._link.client()
        self._heart.pace = await pace_of(self._link)
        before = None if self._link.bearer.is_bound else await self._recorded()
        self._teams = set(before.teams if before is not None else ())
        self._teams |= self._launches.known_teams()
        await self._save(self._record.evolve(teams=sorted(self._teams)))
        if not await self._heart.beat():
            raise Unavailable(
                f"Host {self.name!r} cannot make itself heard at {self._link.endpoint}.",
                remedy="See `bullpen server status`.",
            )
        await self._launches.look(self._teams)
        # Again, now that it is known who is here.
        await self._heart.beat()
        path = self._folder / "operator.token"
        path.touch(mode=0o600)
        path.write_text(self._identities.mint(OPERATOR), encoding="ascii")
        if count := self._launches.count:
            self._tell(f"{count} {'agent runs' if count == 1 else 'agents run'} here already.")

    async def _go_on(self, group: TaskGroup) -> None:
        """Do everything that a host does, from now on."""
        heard_on = await self._listen(group)
        group.start_soon(self._heart.go_on)
        group.start_soon(self._count_on)
        group.start_soon(self._tend_on)
        group.start_soon(self._listen_on, group, heard_on)
        if not self._link.bearer.is_bound:
            # Requests and other hosts are not for who may see certain teams only.
            group.start_soon(self._starting.go_on, self._heart.pace.beat_s)
            group.start_soon(self._look_on)

    # What it says of itself

    async def _recorded(self) -> HostRecord | None:
        client = await self._link.client()
        try:
            row = await wire.last_row(client, "KV_HOSTS", record_key(self.name), timeout_s=_TRY_S)
        except NoAnswer as error:
            raise Unavailable(
                f"What was known of host {self.name!r} cannot be read ({error}).",
                remedy="See `bullpen server status`.",
            ) from None
        return None if row is None or not row.data else HostRecord.parse(jsontext.loads(row.data))

    async def _save(self, record: HostRecord) -> None:
        client = await self._link.client()
        self._record = record
        try:
            data = jsontext.dumps_line(record.raw)
            await wire.replace(client, record_key(record.name), data, timeout_s=_TRY_S)
        except (NoAnswer, ApiError) as error:
            raise Unavailable(
                f"What host {record.name!r} is could not be written ({error}).",
                remedy="See `bullpen server status`.",
            ) from None

    async def _join(self, team: str) -> None:
        """Have others know that agents of a team are here, before the first one is."""
        self._teams.add(team)
        if team not in self._record.teams:
            await self._save(self._record.evolve(teams=sorted(self._teams)))

    def _beat_now(self) -> HostBeat:
        return HostBeat.new(
            name=self.name,
            beat_ms=self._clock(),
            agents=self._launches.count,
            memory_mb_free=free_memory_mb(),
            draining=self._draining,
        )

    # Looking after agents, here and elsewhere

    async def _count_on(self) -> None:
        while True:
            # Not in one with the heartbeat: a team that cannot be read must not hold that up.
            await self._heart.heard()
            try:
                await self._launches.look(self._teams)
            except BullpenError as error:
                _log.info("who runs here is not known: %s", error)

    async def _tend_on(self) -> None:
        while True:
            await anyio.sleep(self._heart.pace.tend_s)
            await self._launches.end_what_is_over()
            await self._undertaker.tend(self._teams)

    async def _look_on(self) -> None:
        while True:
            await anyio.sleep(self._heart.pace.beat_s)
            try:
                hosts = await known_hosts(self._link)
                if not any(host.record == self._record for host in hosts):
                    # Somebody forgot it while it did not answer.
                    await self._save(self._record)
                await self._undertaker.look(hosts)
            except (BullpenError, NoAnswer, ApiError) as error:
                _log.info("other hosts cannot be looked at: %s", error)

    # Orders of others

    async def _listen_on(self, group: TaskGroup, heard_on: Client) -> None:
        """Listen again if the connection was given up and another one made."""
        while True:
            await anyio.sleep(self._heart.pace.beat_s)
            with suppress(BullpenError, nats_errors.Error):
                if await self._link.client() is not heard_on:
                    heard_on = await self._listen(group)

    async def _listen(self, group: TaskGroup) -> Client:
        client = await self._link.client()

        async def work(_: Msg) -> None:
            self._starting.hurry()

        async def order(message: Msg) -> None:
            # Each for itself: one that takes long must not keep the others waiting.
            group.start_soon(self._ordered, message)

        if not self._link.bearer.is_bound:
            await client.subscribe("ws.>", cb=work)
        await client.subscribe(order_subject(self.name), cb=order)
        return client

    async def _ordered(self, message: Msg) -> None:
        if not message.reply.startswith("_INBOX"):
            # An answer to anywhere else would say something there in this host's name.
            return
        answer: dict[str, object] = {"ok": True}
        try:
            order = HostOrder.parse(jsontext.loads(message.data))
            if order.action != "stop" or not (order.team and order.agent and order.nonce):
                raise Unavailable(f"A host cannot be told to {order.action!r}.")
            supervisor = self._office.supervisor(order.team)
            await supervisor.end_here(order.agent, order.nonce, grace_s=order.grace_s)
        except NotFound:
            pass
        except (BullpenError, ValueError) as error:
            answer = {"error": str(error)}
        with suppress(nats_errors.Error, OSError):
            await message.respond(jsontext.dumps_line(answer))

    # Ending

    async def _obey_signals(self) -> str:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGTERM:
                    return "left its agents to the next host process"
                self._draining = True
                async with anyio.create_task_group() as group:
                    group.start_soon(self._drain, group.cancel_scope.cancel)
                    async for _ in signals:
                        group.cancel_scope.cancel()
                        return "was told twice, and left what was still running"
                return "drained"
        raise AssertionError("signals do not end")

    async def _drain(self, done: Callable[[], None]) -> None:
        """Stop the agents of this machine; those that may go on elsewhere do."""
        await self._heart.beat()
        with anyio.move_on_after(_DRAIN_S):
            await self._launches.none_starting()
        with suppress(BullpenError):
            await self._launches.look(self._teams)
        left: set[str] = set()
        async with anyio.create_task_group() as group:
            for team in sorted(self._teams):
                for launch in self._launches.in_team(team):
                    group.start_soon(self._suspend, team, launch.agent, left)
        with suppress(BullpenError):
            # Whoever could not be stopped is given up by others.
            await self._save(self._record.evolve(teams=sorted(left), drained_ms=self._clock()))
        await self._heart.stop()
        done()

    async def _suspend(self, team: str, name: str, left: set[str]) -> None:
        supervisor = self._office.supervisor(team)
        try:
            await supervisor.stop(
                name, by=LEAD, grace_s=_DRAIN_S, end="suspended", reason="its machine is drained"
            )
            await supervisor.go_on_elsewhere(name, by=LEAD)
        except NotFound:
            pass
        except BullpenError as error:
            left.add(team)
            self._tell(f"{name} of team {team}: {error.message}")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Be the only host process of a home. Raises Conflict, Unavailable."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"The host process cannot keep its things in {folder}: {error.strerror}.",
            remedy="Mend the cause, or use another --home.",
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"There is a host process for {folder.parent} already.",
                remedy="Use that one, or end it first.",
            ) from None
        yield
    finally:
        os.close(lock)
