"""The host process: it connects the agents of its machine, starts those that ask for a machine
like it, says that it is there, and sees to those that others lost.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import anyio
from nats.aio.msg import Msg

from bullpen.agents import processes
from bullpen.agents.hosts.over_nats import NatsHosts, beat_key, order_subject, record_key
from bullpen.agents.hosts.records import (
    BEAT_EVERY_S,
    HostBeat,
    HostOrder,
    HostRecord,
    fits,
    has_room,
    own_labels,
)
from bullpen.app import Settings
from bullpen.errors import BullpenError, Conflict, NotFound, Unavailable
from bullpen.fleet.host.asked import Asked, HostsOfDaemon
from bullpen.fleet.host.machine import found_labels, free_memory_mb
from bullpen.fleet.host.queue import SpawnQueue, Taken
from bullpen.fleet.host.undertaker import Undertaker
from bullpen.office import Office
from bullpen.protocol import jsontext
from bullpen.protocol.names import LEAD
from bullpen.store.clock import Clock, now_ms
from bullpen.store.hosted.identities import OPERATOR, Identities
from bullpen.store.hosted.server import HostDoor
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Endpoint
from bullpen.store.nats.store import NatsStore
from bullpen.store.nats.wire import ApiError, NoAnswer

_log = logging.getLogger(__name__)

_BELIEVE_S = 1.0
_TEND_EVERY_S = 10.0
_QUEUE_EVERY_S = 5.0
_PROGRESS_EVERY_S = 15.0
_TRY_S = 5.0
_DRAIN_S = 10.0


def host_folder(home: Path) -> Path:
    """Where the host process of a home keeps its socket and its secrets."""
    return home / "host"


def socket_path(home: Path) -> str:
    """The socket by which local agents reach the host process of a home."""
    return str(host_folder(home) / "socket")


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
        self._folder = host_folder(settings.home)
        self._store = NatsStore(endpoint, host=self.name, believe_s=_BELIEVE_S)
        self._link = self._store.link
        self._identities = Identities(self._folder / "identities.json")
        self._hosts = HostsOfDaemon(
            NatsHosts(self._link, {}), self._identities, socket_path(settings.home)
        )
        self._office = Office(
            replace(settings, agent=LEAD), environ, store=self._store, hosts=self._hosts
        )
        self._door = HostDoor(
            self._store,
            socket_path(settings.home),
            self._identities,
            asked=Asked(self._store, self._hosts),
        )
        self._queue = SpawnQueue(self._link)
        self._record = HostRecord.new(
            name=self.name,
            labels=own_labels(labels, found_labels(environ)),
            agents_max=agents_max,
            memory_mb_min=memory_mb_min,
            started_ms=clock(),
            pid=os.getpid(),
            version=version("bullpen"),
        )
        self._undertaker = Undertaker(
            self.name, self._link, self._office, save=self._save, clock=clock
        )
        self._teams: set[str] = set()
        self._starting = 0
        self._running = 0
        self._draining = False
        self._work = anyio.Event()

    async def run(self, *, ready: Callable[[], None] = lambda: None) -> str:
        """Be the host of this machine until a signal says otherwise; says how it ended.

        SIGTERM drains it: its agents are stopped, and those that may go on elsewhere do. SIGINT
        and SIGHUP end only the process: its agents go on, and the next one takes them over.

        Raises:
            Conflict: there is a host process already.
            Unavailable: the servers do not answer.
        """
        await self._link.client()
        async with self._door:
            await self._begin()
            async with anyio.create_task_group() as group:
                for each in (self._beat_on, self._take_on, self._tend_on, self._look_on):
                    group.start_soon(each)
                await self._listen()
                ready()
                ended = await self._obey_signals()
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._office.__aexit__(None, None, None)
        return ended

    async def _begin(self) -> None:
        """Leave the secret for the user of this machine, and find the agents that run here."""
        token = self._identities.mint(OPERATOR)
        path = self._folder / "operator.token"
        path.touch(mode=0o600)
        path.write_text(token, encoding="ascii")
        before = await self._recorded()
        self._teams = set(before.teams if before is not None else ())
        await self._count()
        await self._save(self._record.evolve(teams=sorted(self._teams)))
        await self._beat()
        if self._running:
            self._tell(f"{self._running} agents run here already.")

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
        if record.name == self.name:
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
        if team not in self._teams:
            self._teams.add(team)
            await self._save(self._record.evolve(teams=sorted(self._teams)))

    # Saying that it is there

    async def _beat_on(self) -> None:
        while True:
            await anyio.sleep(BEAT_EVERY_S)
            with suppress(BullpenError):
                await self._count()
            await self._beat()

    async def _count(self) -> None:
        """How many agents run here."""
        running = 0
        for team in sorted(self._teams):
            try:
                living = await self._office.teams.open(team).agents.living()
            except NotFound:
                self._teams.discard(team)
                continue
            running += sum(
                agent.place is not None and agent.place.host == self.name for _, agent in living
            )
        self._running = running

    def _beat_now(self) -> HostBeat:
        return HostBeat.new(
            name=self.name,
            beat_ms=self._clock(),
            agents=self._running + self._starting,
            memory_mb_free=free_memory_mb(),
            draining=self._draining,
        )

    async def _beat(self) -> None:
        client = await self._link.client()
        with suppress(NoAnswer, ApiError):
            data = jsontext.dumps_line(self._beat_now().raw)
            await wire.replace(client, beat_key(self.name), data, timeout_s=_TRY_S)

    # Starting agents

    async def _listen(self) -> None:
        client = await self._link.client()

        async def work(_: Msg) -> None:
            self._work.set()

        await client.subscribe("ws.>", cb=work)
        await client.subscribe(order_subject(self.name), cb=self._ordered)

    async def _take_on(self) -> None:
        async with anyio.create_task_group() as starts:
            while True:
                self._work = anyio.Event()
                try:
                    await self._take_all(starts.start_soon)
                except (BullpenError, NoAnswer, ApiError) as error:
                    _log.info("the queue of spawns cannot be read: %s", error)
                with anyio.move_on_after(_QUEUE_EVERY_S):
                    await self._work.wait()

    async def _take_all(self, start: Callable[..., object]) -> None:
        for pool in await self._queue.pools():
            asked = await self._queue.peek(pool)
            if asked is None or not fits(self._record.labels, asked.labels):
                continue
            while has_room(self._record, self._beat_now()):
                try:
                    taken = await self._queue.take(pool)
                except (NoAnswer, ApiError):
                    self._queue.forget(pool)
                    raise
                if taken is None:
                    break
                self._starting += 1
                start(self._start, taken)

    async def _start(self, taken: Taken) -> None:
        """Start an agent; whatever comes of it, the queue is told."""
        asked = taken.request
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hold, taken)
                try:
                    await self._join(asked.team)
                    supervisor = self._office.supervisor(asked.team)
                    await supervisor.take(asked.agent, asked.nonce, by=asked.by)
                    self._running += 1
                    self._tell(f"Started {asked.agent} of team {asked.team}.")
                except (NotFound, Conflict):
                    pass
                except BullpenError as error:
                    self._tell(f"{asked.agent} of team {asked.team}: {error.message}")
                group.cancel_scope.cancel()
            with suppress(NoAnswer):
                await taken.done()
        finally:
            self._starting -= 1

    async def _hold(self, taken: Taken) -> None:
        """Keep a request from being given to others while its agent is being started."""
        while True:
            await anyio.sleep(_PROGRESS_EVERY_S)
            with suppress(NoAnswer):
                await taken.still_at_it()

    # Orders of others

    async def _ordered(self, message: Msg) -> None:
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
        with suppress(Exception):
            await message.respond(jsontext.dumps_line(answer))

    # Looking after agents, here and elsewhere

    async def _tend_on(self) -> None:
        while True:
            await anyio.sleep(_TEND_EVERY_S)
            await self._undertaker.tend(self._teams)

    async def _look_on(self) -> None:
        while True:
            await anyio.sleep(BEAT_EVERY_S)
            try:
                await self._undertaker.look()
            except (BullpenError, NoAnswer, ApiError) as error:
                _log.info("other hosts cannot be looked at: %s", error)

    # Ending

    async def _obey_signals(self) -> str:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGTERM:
                    return "left its agents to the next host process"
                self._draining = True
                await self._beat()
                async with anyio.create_task_group() as group:
                    group.start_soon(self._drain, group.cancel_scope.cancel)
                    async for _ in signals:
                        group.cancel_scope.cancel()
                        return "was told twice, and left what was still running"
                return "drained"
        raise AssertionError("signals do not end")

    async def _drain(self, done: Callable[[], None]) -> None:
        """Stop the agents of this machine; those that may go on elsewhere do."""
        async with anyio.create_task_group() as group:
            for team in sorted(self._teams):
                with suppress(BullpenError):
                    for member, agent in await self._office.teams.open(team).agents.living():
                        if agent.place is not None and agent.place.host == self.name:
                            group.start_soon(self._suspend, team, member.name)
        client = await self._link.client()
        with suppress(NoAnswer, ApiError):
            await wire.replace(client, beat_key(self.name), b"", timeout_s=_TRY_S)
        with suppress(BullpenError):
            await self._save(self._record.evolve(teams=[]))
        done()

    async def _suspend(self, team: str, name: str) -> None:
        supervisor = self._office.supervisor(team)
        try:
            await supervisor.stop(
                name, by=LEAD, grace_s=_DRAIN_S, end="suspended", reason="its machine is drained"
            )
            await supervisor.go_on_elsewhere(name, by=LEAD)
        except BullpenError as error:
            self._tell(f"{name} of team {team}: {error.message}")
