"""Row b: a message from one host to another, among thousands of waiting agents."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.subjects import Address, partition_for
from bullpen.store.nats.store import NatsStore
from figures import Figure, Row, below, figure_of, percentile
from fleet_cell import PARTITIONS, Cell
from fleet_counts import FleetCounts
from fleet_figures import Costs, beside, fleet_row, ratio_of
from fleet_hosts import Hosts, Pause
from fleet_scenery import agents_of, for_each, make_team, message

_P50_MS = 10.0
_P99_MS = 100.0
_PATIENCE_S = 60.0
_BELIEVE_S = 1.0
_RECEIVER, _SENDER = range(2)

Send = Callable[[int], Coroutine[Any, Any, None]]
"""Send the message with a number."""


@dataclass(slots=True)
class Waits:
    """Seconds from the send to the arrival of the text, and to its stored acknowledgement.

    `busy` is the share of a core that this host used meanwhile.
    """

    hand: list[float] = field(default_factory=list)
    injected: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    busy: float = 0.0


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """One host has all agents, the other sends: bare messages, ours, bare ones again."""
    store = NatsStore(cell.endpoint)
    try:
        await for_each(
            _teams(counts), lambda team: make_team(store, team, agents=counts.mail_agents)
        )
    finally:
        await store.aclose()
    async with Hosts(2, host, cell.endpoint, counts) as hosts:
        await hosts.found()
        await hosts.step()
        before = cell.cpu_s()
        await hosts.step()
        servers_s = cell.cpu_s() - before
        await hosts.step()
        found: list[Waits] = await hosts.step()
    waits = found[_RECEIVER]
    costs.message_servers_us = servers_s / len(waits.injected) * 1e6
    cores = f"receiver {waits.busy:.2f} of a core, sender {found[_SENDER].busy:.2f}, processor time"
    cores += f" of a message and its mark in three servers {costs.message_servers_us:.0f} us"
    return _rows(waits, counts, cores)


def _teams(counts: FleetCounts) -> list[str]:
    return [f"mail-{number}" for number in range(counts.mail_teams)]


async def host(index: int, pause: Pause, endpoint: Endpoint, counts: FleetCounts) -> Waits:
    """Both hosts follow all teams, like hosts that run members of them."""
    store = NatsStore(endpoint, believe_s=_BELIEVE_S)
    bare = await nats.connect(list(endpoint.servers))
    waits = Waits()
    names = agents_of(counts.mail_agents) if index == _RECEIVER else [LEAD]
    agents = [Agent(store, team, name, waits) for team in _teams(counts) for name in names]
    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(agent.run)
        for agent in agents:
            await agent.waits.wait()
        if index == _RECEIVER:
            await _listen(bare, waits)
        await pause(None)
        send, bare_send = _ours(store, counts), _bare(bare, counts)
        messages = int(counts.mail_per_s * counts.mail_s)
        bare_messages = int(counts.mail_per_s * counts.bare_mail_s)
        for act, count, arrived, expected in (
            (bare_send, bare_messages, waits.bare, bare_messages),
            (send, messages, waits.injected, messages),
            (bare_send, bare_messages, waits.bare, 2 * bare_messages),
        ):
            used, begin = time.process_time(), time.monotonic()
            if index == _SENDER:
                await _send_all(act, count, counts.mail_per_s)
            else:
                await _until_so_many(arrived, expected)
            if act is send:
                waits.busy = (time.process_time() - used) / (time.monotonic() - begin)
            await pause(None)
        group.cancel_scope.cancel()
    await bare.close()
    await store.aclose()
    return waits


class Agent:
    """Waits for mail, reads it and acknowledges it, as a runner does."""

    def __init__(self, store: NatsStore, team: str, name: str, waits: Waits) -> None:
        self._store = store
        self._team = team
        self._name = name
        self._waits = waits
        self.waits = anyio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        async with aclosing(self._store.watch(self._team, agent=self._name)) as changes:
            async for _ in changes:
                await self._look()
                self.waits.set()

    async def _look(self) -> None:
        box = await self._store.mailbox(self._team, self._name)
        fresh = [entry for entry in box.entries if entry.state == "stored"]
        if not fresh:
            return
        sent = [float(entry.message.text.split()[0]) for entry in fresh]
        self._waits.hand += _since(sent)
        ids = [entry.id for entry in fresh]
        await self._store.acknowledge(self._team, self._name, ids, "injected", actor=self._name)
        self._waits.injected += _since(sent)


def _since(moments: list[float]) -> list[float]:
    # All processes of a machine share this clock.
    return [time.monotonic() - moment for moment in moments]


def _text() -> str:
    return f"{time.monotonic()} ".ljust(80, "x")


def _ours(store: NatsStore, counts: FleetCounts) -> Send:
    teams, agents = _teams(counts), agents_of(counts.mail_agents)

    async def send(number: int) -> None:
        team = teams[number % len(teams)]
        to = agents[number // len(teams) % len(agents)]
        await store.append(team, to, message(_text()), actor=LEAD, fresh=True)

    return send


def _bare(client: Client, counts: FleetCounts) -> Send:
    js = client.jetstream(timeout=10)
    subjects = [
        Address(f"bare-{team}", partition_for(team, PARTITIONS), "0").log for team in _teams(counts)
    ]

    async def send(number: int) -> None:
        await js.publish(subjects[number % len(subjects)], _text().ljust(400, "x").encode())

    return send


async def _listen(client: Client, waits: Waits) -> None:
    async def take(bare: Msg) -> None:
        waits.bare += _since([float(bare.data.split()[0])])

    await client.subscribe("w.*.*.0.log", cb=take)
    await client.flush()


async def _send_all(send: Send, count: int, per_s: int) -> None:
    """Send at an even pace, whether or not earlier ones have arrived."""
    begin = anyio.current_time()
    async with anyio.create_task_group() as group:
        for number in range(count):
            await anyio.sleep_until(begin + number / per_s)
            group.start_soon(send, number)


async def _until_so_many(arrived: list[float], expected: int) -> None:
    with anyio.fail_after(_PATIENCE_S):
        while len(arrived) < expected:  # noqa: ASYNC110
            await anyio.sleep(0.05)


def _rows(waits: Waits, counts: FleetCounts, cores: str) -> list[Row]:
    agents = counts.mail_teams * counts.mail_agents
    work = f"message to another host, {agents:,} agents there, {counts.mail_per_s}/s"
    found = []
    for text, values in (("in hand", waits.hand), ("injected, stored", waits.injected)):
        for percent, limit in ((50, _P50_MS), (99, _P99_MS)):
            waited = [each * 1e3 for each in values]
            ours = figure_of(waited, "ms", pick=partial(percentile, percent=percent))
            bare = Figure(percentile(waits.bare, percent) * 1e3, "ms", "in hand")
            goal = beside(below(ours, limit), ratio_of(ours, bare))
            note = f"{len(values)} messages, longest {max(values) * 1e3:.0f} ms"
            if percent == 50:
                note += f"; {cores}"
            found.append(fleet_row("b", f"{work}: {text}, p{percent}", ours, goal, bare, note))
    return found
