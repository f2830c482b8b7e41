"""The queue of agents that wait for a host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.agents.supervisor.machines.host_records import HostSpawn
from bullpen.protocol import json_text
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import NoAnswer, api
from bullpen.store.nats.client.connection import NatsConnection

STREAM = "SPAWN"
ACK_WAIT_S = 60
_TRY_S = 5.0
_S = 1_000_000_000
_EMPTY = ("404", "408", "409")
_LATER = b'-NAK {"delay": %d}' % (5 * _S)


@dataclass(frozen=True, slots=True)
class QueuedSpawn:
    """A spawn request that this host took, until it reports the result."""

    request: HostSpawn
    done: Callable[[], Awaitable[None]]
    still_at_it: Callable[[], Awaitable[None]]
    give_back: Callable[[], Awaitable[None]]


class SpawnQueue:
    """Requests by pool. Each is given to one host at a time, and again if that host dies."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._prepared: set[str] = set()

    async def pools(self) -> list[str]:
        """Return the pools in which requests wait. Raises ApiError, Unavailable."""
        client = await self._link.client()
        ask = {"subjects_filter": "spawn.>"}
        info = await api(client, f"STREAM.INFO.{STREAM}", ask, timeout_s=_TRY_S)
        waiting = info["state"].get("subjects") or {}
        return [subject.removeprefix("spawn.") for subject in waiting]

    async def peek(self, pool: str) -> HostSpawn | None:
        """Return a request of a pool, to see which labels it asks for."""
        client = await self._link.client()
        row = await api_requests.last_row(client, STREAM, f"spawn.{pool}", timeout_s=_TRY_S)
        return None if row is None else _request(row.data)

    async def take(self, pool: str) -> QueuedSpawn | None:
        """Return the next request of a pool; None if there is none. Raises NoAnswer, ApiError."""
        client = await self._link.client()
        await self._prepare(client, pool)
        call = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.pool-{pool}"
        message = await _pulled(client, call)
        if (message.headers or {}).get("Status") in _EMPTY:
            return None
        reply = message.reply

        async def answer(word: bytes) -> None:
            try:
                await client.publish(reply, word)
                await client.flush(timeout=2)
            except (nats_errors.Error, OSError, TimeoutError) as error:
                raise NoAnswer(type(error).__name__) from None

        request = _request(message.data)
        if request is None:
            await answer(b"+TERM")
            return None
        return QueuedSpawn(
            request,
            done=lambda: answer(b"+ACK"),
            still_at_it=lambda: answer(b"+WPI"),
            give_back=lambda: answer(_LATER),
        )

    async def _prepare(self, client: Client, pool: str) -> None:
        if pool in self._prepared:
            return
        name = f"pool-{pool}"
        config = {
            "durable_name": name,
            "filter_subject": f"spawn.{pool}",
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * _S,
            "max_deliver": 5,
            "inactive_threshold": 24 * 3600 * _S,
        }
        ask = {"stream_name": STREAM, "config": config}
        call = f"CONSUMER.CREATE.{STREAM}.{name}.spawn.{pool}"
        await api(client, call, ask, timeout_s=_TRY_S)
        self._prepared.add(pool)

    def forget(self, pool: str) -> None:
        """Prepare a pool again before its next use: its consumer may be gone."""
        self._prepared.discard(pool)


async def _pulled(client: Client, call: str) -> Msg:
    """Return the answer to a pull. It has the subject it was stored with, not the request's."""
    inbox = client.new_inbox()
    arrived: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
    try:
        await client.subscribe(inbox, future=arrived, max_msgs=1)
        await client.publish(call, b'{"batch":1,"no_wait":true}', reply=inbox)
        async with asyncio.timeout(_TRY_S):
            return await arrived
    except (nats_errors.Error, OSError, TimeoutError) as error:
        raise NoAnswer(type(error).__name__) from None


def _request(data: bytes) -> HostSpawn | None:
    try:
        return HostSpawn.parse(json_text.loads(data))
    except ValueError:
        return None
