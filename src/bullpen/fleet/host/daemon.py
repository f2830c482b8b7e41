"""The host process: connects its machine's agents to the servers and runs queued agents.

It also sends the host's heartbeat and handles agents of lost hosts.
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

from bullpen.agents.supervisor.machines.host_records import (
    HostBeat,
    HostOrder,
    HostRecord,
    own_labels,
)
from bullpen.agents.supervisor.machines.over_nats import known_hosts, record_key
from bullpen.agents.supervisor.spawned_by_agent import check_asked
from bullpen.agents.system import processes
from bullpen.app import nearby_host
from bullpen.app.app import App
from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import CA, CREDS, HOST_TOKEN, STORE, Settings
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Unavailable
from bullpen.fleet.host.agent_operations import AgentOperations
from bullpen.fleet.host.agent_requests import HostRequests, HostsOfDaemon
from bullpen.fleet.host.heartbeat import HostHeartbeat, pace_of
from bullpen.fleet.host.launches import Launches, LaunchTokens
from bullpen.fleet.host.lost_hosts import LostHosts
from bullpen.fleet.host.machine import check_place, found_labels, free_memory_mb
from bullpen.fleet.host.start_queued import Starting
from bullpen.protocol import json_text
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.store.hosted.server import HostServer
from bullpen.store.hosted.socket import socket_in
from bullpen.store.hosted.tokens import OPERATOR, Identities
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import (
    ApiError,
    NoAnswer,
    unavailable_if_unanswered,
)
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.orders import answer_order, orders_heard_at
from bullpen.store.nats.client.subjects import token
from bullpen.store.nats.store import NatsStore

_log = logging.getLogger(__name__)

_BELIEVE_S = 1.0
_TRY_S = 5.0
_DRAIN_S = 10.0
_NOT_FOR_AGENTS = frozenset({STORE, CREDS, CA, HOST_TOKEN})
"""Variables that agents must not get from the environment of their host."""


class Host:
    """The host process of this machine. Call `run`."""

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
        url = settings.store or ""
        endpoint = Endpoint.parse(url, creds=credentials_for(url, settings), ca=settings.ca)
        self.name = processes.host_name()
        self._settings = settings
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
        self._heartbeat = HostHeartbeat(self._link, self.name, self._beat_now)
        socket = str(socket_in(settings.home))
        self._identities = Identities(self._folder / "identities.json")
        tokens = LaunchTokens(self._identities)
        self._hosts = HostsOfDaemon(self._link, socket, tokens)
        self._app = App(
            replace(settings, agent=LEAD),
            {name: value for name, value in environ.items() if name not in _NOT_FOR_AGENTS},
            store=self._store,
            hosts=self._hosts,
            inside=False,
        )
        self._launches = Launches(self.name, self._app.teams, tokens, self._heartbeat)
        exact = self._store.asking_each_time()
        # An agent may have been registered a moment ago, by a process that has its own connection.
        asked = HostRequests(exact, self._hosts, self._join)
        operate = AgentOperations(self._store, judge=self._judge, place=check_place, clock=clock)
        self._server = HostServer(
            self._store,
            socket,
            self._launches,
            asked=asked,
            operate=operate,
            exact=exact,
        )
        self._starting = Starting(
            self._link,
            self._app,
            self._launches,
            itself=lambda: (self._record, self._beat_now()),
            join=self._join,
            tell=tell,
        )
        self._lost_hosts = LostHosts(self.name, self._link, self._app, self._heartbeat)

    async def run(self, *, ready: Callable[[], None] = lambda: None) -> str:
        """Run the host of this machine until a signal ends it. Returns how it ended.

        SIGTERM drains it: its agents are stopped, and those that may continue elsewhere do. SIGINT
        and SIGHUP end only the process: its agents continue, and the next host process takes them
        over. Raises Conflict if there is a host process, Invalid if the credentials are for another
        host, and Unavailable.
        """
        self._check_bearer()
        try:
            with _only_one(self._folder):
                await self._begin()
                async with self._server, anyio.create_task_group() as group:
                    await self._go_on(group)
                    ready()
                    ended = await self._obey_signals()
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._app.__aexit__(None, None, None)
        return ended

    def _check_bearer(self) -> None:
        bearer = self._link.bearer.name
        if bearer is not None and bearer != token(self.name):
            raise Invalid(
                f"The credentials are for host {bearer!r}, but this host is {self.name!r}.",
                remedy=f"Set BULLPEN_HOST={bearer}, or mint credentials for {self.name}.",
            )

    async def _begin(self) -> None:
        """Write the secret for the user of this machine, and find the agents that run here."""
        await self._link.client()
        self._heartbeat.pace = await pace_of(self._link)
        before = None if self._link.bearer.is_bound else await self._recorded()
        self._teams = set(before.teams if before is not None else ())
        self._teams |= self._launches.known_teams()
        await self._save(self._record.evolve(teams=sorted(self._teams)))
        if not await self._heartbeat.beat():
            raise Unavailable(
                f"Host {self.name!r} could not send a heartbeat to {self._link.endpoint}.",
                remedy="Check the servers: bullpen server status",
            )
        await self._launches.look(self._teams)
        # Again, now that the agents here are known.
        await self._heartbeat.beat()
        path = self._folder / "operator.token"
        path.touch(mode=0o600)
        path.write_text(self._identities.mint(OPERATOR), encoding="ascii")
        nearby_host.leave_note(self._settings)
        if count := self._launches.count:
            self._tell(f"{count} {'agent runs' if count == 1 else 'agents run'} here already.")

    async def _go_on(self, group: TaskGroup) -> None:
        """Start everything that a host does."""
        heard_on = await self._listen(group)
        group.start_soon(self._heartbeat.go_on)
        group.start_soon(self._count_on)
        group.start_soon(self._tend_on)
        group.start_soon(self._listen_on, group, heard_on)
        if not self._link.bearer.is_bound:
            # Keys that are bound to teams see neither requests nor other hosts.
            group.start_soon(self._starting.go_on, self._heartbeat.pace.beat_s)
            group.start_soon(self._look_on)

    # Its own record

    async def _recorded(self) -> HostRecord | None:
        client, key = await self._link.client(), record_key(self.name)
        with unavailable_if_unanswered(f"The record of host {self.name!r} could not be read"):
            row = await api_requests.last_row(client, "KV_HOSTS", key, timeout_s=_TRY_S)
        return None if row is None or not row.data else HostRecord.parse(json_text.loads(row.data))

    async def _save(self, record: HostRecord) -> None:
        client = await self._link.client()
        self._record = record
        with unavailable_if_unanswered(f"The record of host {record.name!r} could not be written"):
            data = json_text.dumps_line(record.raw)
            await api_requests.replace(client, record_key(record.name), data, timeout_s=_TRY_S)

    async def _join(self, team: str) -> None:
        """Announce that agents of a team are here, before the first one starts."""
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

    # Agents, here and elsewhere

    async def _judge(
        self, team: str, name: str, spec: AgentSpec, parent: tuple[str, AgentFacts]
    ) -> None:
        """Refuse to register what this agent may not spawn."""
        await check_asked(spec, self._app.files, parent, team=team, name=name)

    async def _count_on(self) -> None:
        while True:
            # Not together with the heartbeat: an unreadable team must not delay it.
            await self._heartbeat.heard()
            try:
                await self._launches.look(self._teams)
            except BullpenError as error:
                _log.info("cannot tell who runs here: %s", error)

    async def _tend_on(self) -> None:
        while True:
            await anyio.sleep(self._heartbeat.pace.tend_s)
            await self._launches.end_what_is_over()
            await self._lost_hosts.tend(self._teams)

    async def _look_on(self) -> None:
        while True:
            await anyio.sleep(self._heartbeat.pace.beat_s)
            try:
                hosts = await known_hosts(self._link)
                if not any(host.record == self._record for host in hosts):
                    # Its record was removed while it did not answer.
                    await self._save(self._record)
                await self._lost_hosts.look(hosts)
            except (BullpenError, NoAnswer, ApiError) as error:
                _log.info("cannot check the other hosts: %s", error)

    # Orders

    async def _listen_on(self, group: TaskGroup, heard_on: Client) -> None:
        """Listen again if the connection was replaced."""
        while True:
            await anyio.sleep(self._heartbeat.pace.beat_s)
            with suppress(BullpenError, nats_errors.Error):
                if await self._link.client() is not heard_on:
                    heard_on = await self._listen(group)

    async def _listen(self, group: TaskGroup) -> Client:
        client = await self._link.client()

        async def work(message: Msg) -> None:
            if message.data:
                self._starting.hurry()

        async def order(message: Msg) -> None:
            # Each on its own: a slow one must not delay the others.
            group.start_soon(self._ordered, message)

        if not self._link.bearer.is_bound:
            await client.subscribe("ws.>", cb=work)
        await client.subscribe(orders_heard_at(self.name), cb=order)
        return client

    async def _ordered(self, message: Msg) -> None:
        answer: dict[str, object] = {"ok": True}
        try:
            order = HostOrder.parse(json_text.loads(message.data))
            if order.action != "stop" or not (order.team and order.agent and order.nonce):
                raise Unavailable(
                    f"The host does not know the order {order.action!r}.",
                    remedy="Use the same version of Bullpen here and on the host.",
                )
            supervisor = self._app.supervisor(order.team)
            await supervisor.end_here(order.agent, order.nonce, grace_s=order.grace_s)
        except NotFound:
            pass
        except (BullpenError, ValueError) as error:
            answer = {"error": str(error)}
        with suppress(BullpenError, NoAnswer, ApiError):
            await answer_order(self._link, message, json_text.dumps_line(answer))

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
                        return "was told twice, and left running what did not stop"
                return "drained"
        raise AssertionError("signals do not end")

    async def _drain(self, done: Callable[[], None]) -> None:
        """Stop the agents of this machine; those that may continue elsewhere do."""
        await self._heartbeat.beat()
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
            # Other hosts give up those that could not be stopped.
            await self._save(self._record.evolve(teams=sorted(left), drained_ms=self._clock()))
        await self._heartbeat.stop()
        done()

    async def _suspend(self, team: str, name: str, left: set[str]) -> None:
        supervisor = self._app.supervisor(team)
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
    """Make this the only host process of a home. Raises Conflict, Unavailable."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"The host process cannot write to {folder}: {error.strerror}.",
            remedy="Fix the cause, or use another --home.",
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"{folder.parent} already has a host process.",
                remedy="Use that one, or stop it first.",
            ) from None
        yield
    finally:
        os.close(lock)
