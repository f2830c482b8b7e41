"""A chaos run: three servers, hosts that write, faults in between, and the check at the end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bullpen.errors import Unavailable
from bullpen.fleet.servers.monitor import streams_of
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.changes import Event
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore

from . import host as chaos_nats_host
from .checker import acknowledged, replayed, violations
from .diary import ENDINGS, config_of, notes_in, portrait, teams_of

Fault = Literal["kill leader", "kill follower", "kill host", "pause server", "pause host"]

_PARTITIONS = 2
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens in one round."""

    faults: tuple[Fault, ...]
    acknowledged: int
    seed: int
    hosts: int = 8
    pause_s: tuple[float, float] = (5.0, 15.0)
    pace_s: float = 0.01


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    acknowledged: int
    faults: int
    unavailable: int
    events: int
    messages: int
    injected: int
    claims: int
    lives: int
    seconds: float
    violations: tuple[str, ...]


class Run:
    """One round."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._cluster = Cluster(folder / "servers", 3)
        self._hosts: dict[int, subprocess.Popen[bytes]] = {}
        self._lives: dict[int, int] = {}
        self._teams = teams_of(plan.hosts)

    async def __call__(self) -> Outcome:
        began = time.monotonic()
        async with self._cluster:
            try:
                await self._prepare()
                for host in range(self._plan.hosts):
                    self._start(host)
                await self._disturb()
                await self._end()
                found = await self._check()
            finally:
                for process in self._hosts.values():
                    process.kill()
                    process.wait()
        notes = notes_in(self._folder)
        logs, wrong = found
        return Outcome(
            acknowledged=acknowledged(notes),
            faults=len(self._plan.faults),
            unavailable=sum(note["kind"] == "unavailable" for note in notes),
            events=sum(map(len, logs.values())),
            messages=sum(note["kind"] == "sent" for note in notes),
            injected=sum(len(note["ids"]) for note in notes if note["kind"] == "injected"),
            claims=sum(note["kind"] == "claimed" for note in notes),
            lives=sum(self._lives.values()),
            seconds=round(time.monotonic() - began, 1),
            violations=tuple(wrong),
        )

    # Servers, teams and hosts

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(tuple(self._cluster.urls))

    async def _prepare(self) -> None:
        link = NatsConnection(self._endpoint)
        await prepare(await link.client(), partitions=_PARTITIONS, replicas=3)
        await link.aclose()
        store = NatsStore(self._endpoint)
        for team in self._teams:
            await store.create(team, config_of(team, self._plan.hosts), actor=LEAD)
        await store.aclose()

    def _start(self, host: int) -> None:
        self._lives[host] = self._lives.get(host, 0) + 1
        orders = chaos_nats_host.Orders(
            str(self._folder),
            tuple(self._cluster.urls),
            host,
            self._plan.hosts,
            self._lives[host],
            self._plan.pace_s,
        )
        words = [sys.executable, chaos_nats_host.__file__, json.dumps(asdict(orders))]
        with (self._folder / f"{host}.{self._lives[host]}.log").open("wb") as log:
            self._hosts[host] = subprocess.Popen(words, stdout=log, stderr=log)

    # Faults

    async def _disturb(self) -> None:
        share = self._plan.acknowledged // (len(self._plan.faults) + 1)
        await self._go_on(share)
        for fault in self._plan.faults:
            await self._inflict(fault)
            await self._go_on(share)

    async def _go_on(self, more: int) -> None:
        """Wait until so much more was acknowledged: everybody goes on."""
        wanted = self._written() + more
        deadline = time.monotonic() + _PATIENCE_S + more / 20
        while self._written() < wanted:
            assert time.monotonic() < deadline, f"nobody goes on; see {self._folder}"
            self._refuse_dead()
            await asyncio.sleep(0.2)

    def _written(self) -> int:
        """About how much was acknowledged: lines are cheaper to count than to read."""
        kinds = (b'{"kind": "commit"', b'{"kind": "marked"')
        diaries = [path.read_bytes() for path in self._folder.glob("*.diary")]
        return sum(diary.count(kind) for diary in diaries for kind in kinds)

    def _refuse_dead(self) -> None:
        for number, host in self._hosts.items():
            log = self._folder / f"{number}.{self._lives[number]}.log"
            assert host.poll() is None, f"host {number} ended: {log.read_text()[-2000:]}"

    async def _inflict(self, fault: Fault) -> None:
        chance = self._chance
        match fault:
            case "kill leader" | "kill follower" | "pause server":
                victim = await self._server(fault)
                if fault == "pause server":
                    self._cluster.pause(victim)
                    await asyncio.sleep(chance.uniform(*self._plan.pause_s))
                    self._cluster.go_on(victim)
                else:
                    self._cluster.kill(victim)
                    await asyncio.sleep(chance.uniform(0.5, 4.0))
                    await self._cluster.restart(victim)
                await self._cluster.wait_ready()
            case "kill host":
                number = chance.randrange(self._plan.hosts)
                self._hosts[number].kill()
                self._hosts[number].wait()
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                self._start(number)
            case "pause host":
                host = self._hosts[chance.randrange(self._plan.hosts)]
                host.send_signal(signal.SIGSTOP)
                await asyncio.sleep(chance.uniform(*self._plan.pause_s))
                host.send_signal(signal.SIGCONT)

    async def _server(self, fault: Fault) -> int:
        """The leader of a stream of teams; or one that is not, if a follower is wanted."""
        stream = f"TEAM_{self._chance.randrange(_PARTITIONS):02d}"
        leader: int | None = None
        deadline = time.monotonic() + _PATIENCE_S
        while leader is None:
            assert time.monotonic() < deadline, f"{stream} has no leader"
            leader = await self._cluster.leader_of(stream)
        if fault == "kill leader" or (fault == "pause server" and self._chance.random() < 0.5):
            return leader
        return self._chance.choice([number for number in range(3) if number != leader])

    # The end

    async def _end(self) -> None:
        for ending in ENDINGS:
            (self._folder / ending).touch()
            deadline = time.monotonic() + _PATIENCE_S
            while len(list(self._folder.glob(f"*.{ending}"))) < self._plan.hosts:
                assert time.monotonic() < deadline, f"hosts do not come to {ending!r}"
                if ending != "settle":
                    self._refuse_dead()
                await asyncio.sleep(0.05)
        for number, host in self._hosts.items():
            assert await asyncio.to_thread(host.wait, 60) == 0, f"host {number} failed"

    async def _check(self) -> tuple[dict[str, list[Event]], list[str]]:
        wrong = list(await self._unequal_replicas())
        store = NatsStore(self._endpoint)
        logs: dict[str, list[Event]] = {}
        try:
            for team in self._teams:
                logs[team] = await store.events(team)
                if await portrait(store, team) != replayed(logs[team]):
                    wrong.append(f"a fresh store shows another {team} than its log describes")
                wrong += [found.what for found in await store.checkup(team, fix=False)]
        finally:
            await store.aclose()
        for path in self._folder.glob("*.state"):
            for team, state in json.loads(path.read_text(encoding="utf-8")).items():
                if state != replayed(logs[team]):
                    wrong.append(f"{path.stem} shows another {team} than the log describes")
        return logs, [*wrong, *violations(notes_in(self._folder), logs)]

    async def _unequal_replicas(self) -> Sequence[str]:
        """All three servers have the same messages, once they have caught up."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            held: dict[str, set[tuple[int, int, int]]] = {}
            for index in range(3):
                try:
                    jsz = await self._cluster.monitor(index, "/jsz?accounts=1&streams=1")
                except Unavailable:
                    continue
                for (_, name), detail in streams_of(jsz).items():
                    state = detail["state"]
                    row = (state["messages"], state["first_seq"], state["last_seq"])
                    if name.startswith("TEAM_"):
                        held.setdefault(name, set()).add(row)
            unequal = [f"{name}: {rows}" for name, rows in held.items() if len(rows) > 1]
            if len(held) == _PARTITIONS and (not unequal or time.monotonic() > deadline):
                return unequal
            await asyncio.sleep(0.2)


def schedule(kinds: Sequence[Fault], count: int, chance: random.Random) -> tuple[Fault, ...]:
    """So many faults, every kind about as often, in random order."""
    drawn = [kinds[number % len(kinds)] for number in range(count)]
    chance.shuffle(drawn)
    return tuple(drawn)


def run(folder: Path, plan: Plan) -> Outcome:
    return asyncio.run(Run(folder, plan)())


def setting(name: str, otherwise: int) -> int:
    return int(os.environ.get(f"BULLPEN_CHAOS_{name}", otherwise))
