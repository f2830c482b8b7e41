"""Creates and checks the streams that a cell needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from nats.aio.client import Client

from bullpen.errors import Conflict, Invalid, Refused, Unavailable
from bullpen.protocol import json_text
from bullpen.store.nats.client import subjects
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer, NoStream, api, leader_row
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.log.packing import PACKED_FORMAT

T = TypeVar("T")

PAYLOAD_MAX = 8 * 1024 * 1024 - 64 * 1024
"""The longest message that is stored; servers accept 8 MB with headers."""

_S = 1_000_000_000
_STREAM_EXISTS = 10058
_NOT_YET = frozenset({10005, 10008, 10009, 10023, 10049, 10074})
_PATIENCE_S = 45.0
_BEATS_TTL_S = 30
_NARROWED = ("allow_rollup_hdrs", "deny_purge")


async def prepare(
    nc: Client, *, partitions: int = 1, replicas: int = 1, beats_ttl_s: int = _BEATS_TTL_S
) -> None:
    """Create the streams for teams, presence, hosts and spawn requests. Can be repeated.

    The number of partitions never goes down: they contain teams. A host is lost when nothing was
    heard from it for `beats_ttl_s`. Raises Conflict if a stream has another configuration.
    """
    if not 1 <= partitions <= subjects.PARTITIONS_MAX:
        raise Invalid(
            f"A cell cannot have {partitions} partitions.",
            remedy=f"Choose 1 to {subjects.PARTITIONS_MAX}.",
        )
    partitions = max(partitions, await _partitions_before(nc))
    own = [int(name.removeprefix("TEAM_")) for name in await _names(nc) if _is_own(name)]
    for config in [
        *(_team_stream(partition, replicas) for partition in range(partitions)),
        _directory(replicas),
        _presence(replicas),
        *(_presence(replicas, partition) for partition in own),
        _bucket("HOSTS", replicas, storage="file"),
        _beats(replicas, beats_ttl_s),
        _starts(replicas),
        _orders(replicas),
    ]:
        await _ensure(nc, config)
    cell: dict[str, object] = {"v": 1, "partitions": partitions, "replicas": replicas}
    # Whoever prepares the servers has upgraded the hosts first.
    cell["format"] = PACKED_FORMAT
    if beats_ttl_s != _BEATS_TTL_S:
        cell["beats_ttl_s"] = beats_ttl_s
    await nc.request(subjects.CELL_KEY, json_text.dumps_line(cell), timeout=10)


async def give_own(nc: Client, team: str, partition: int) -> bool:
    """Create the streams of a team that keys are bound to, and have it created there from now on.

    False if this is no cell yet. Can be repeated.
    """
    cell = await _cell(nc)
    if cell is None:
        return False
    replicas = int(cell.get("replicas", 1))
    await _ensure(nc, _team_stream(partition, replicas))
    await _ensure(nc, _presence(replicas, partition))
    place = json_text.dumps_line({"p": partition})
    await nc.request(subjects.place_key(team), place, timeout=10)
    return True


async def with_stream(
    link: NatsConnection, stream: str, work: Callable[[], Awaitable[T]]
) -> tuple[T, bool]:
    """Use a stream that servers keep in memory; create it again if a restart lost it.

    Also returns whether it was created. Raises what `work` raises; NoStream if it is gone and these
    credentials do not allow to create it.
    """
    try:
        return await work(), False
    except NoStream:
        if not link.bearer.may_create or not await _made_again(await link.client(), stream):
            raise
    return await work(), True


async def _made_again(nc: Client, name: str) -> bool:
    try:
        cell = await _cell(nc)
        if cell is None:
            return False
        replicas = int(cell.get("replicas", 1))
        if name == "KV_BEATS":
            config = _beats(replicas, int(cell.get("beats_ttl_s", _BEATS_TTL_S)))
        elif name == "ORDERS":
            config = _orders(replicas)
        else:
            _, _, own = name.partition("_")
            config = _presence(replicas, int(own) if own else None)
        await api(nc, f"STREAM.CREATE.{name}", config, timeout_s=4.0)
    except ApiError as error:
        # Others may have been faster.
        return error.err_code == _STREAM_EXISTS
    except (Refused, Unavailable):
        return False
    return True


async def _names(nc: Client) -> list[str]:
    found: list[str] = []
    while True:
        ask = partial(api, nc, "STREAM.NAMES", {"offset": len(found)}, timeout_s=4.0)
        page = await _once_led("list its streams", ask)
        found += page.get("streams") or []
        if not page.get("streams") or len(found) >= int(page["total"]):
            return found


def _is_own(stream: str) -> bool:
    _, _, partition = stream.partition("TEAM_")
    return partition.isdecimal() and int(partition) >= subjects.OWN_FIRST


async def _cell(nc: Client) -> dict[str, Any] | None:
    try:
        ask = {"last_by_subj": subjects.CELL_KEY}
        row = await leader_row(nc, subjects.DIRECTORY_STREAM, ask, timeout_s=4.0)
    except NoAnswer:
        # Most probably there is no such stream yet.
        return None
    found: dict[str, Any] | None = None if row is None else json_text.loads(row.data)
    return found


async def _partitions_before(nc: Client) -> int:
    cell = await _cell(nc)
    return 0 if cell is None else int(cell["partitions"])


async def _ensure(nc: Client, config: dict[str, Any]) -> None:
    """Create a stream, unless it exists. Raises Conflict if it has another configuration."""
    name = config["name"]

    async def create() -> None:
        try:
            await api(nc, f"STREAM.CREATE.{name}", config, timeout_s=4.0)
        except ApiError as error:
            if error.err_code != _STREAM_EXISTS:
                raise
            if not await _is_updated(nc, config):
                raise Conflict(
                    f"The server has a stream {name!r} with another configuration.",
                    remedy="Use another server or account, or remove that stream.",
                ) from None

    await _once_led(f"create the stream {name!r}", create)


async def _once_led(what: str, act: Callable[[], Awaitable[T]]) -> T:
    """Ask servers that may just have met: they need a moment to agree on a leader.

    Raises Unavailable if they refuse, or have none after a while.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return await act()
        except ApiError as error:
            if time.monotonic() > deadline or error.err_code not in _NOT_YET:
                raise Unavailable(
                    f"The server did not {what}: {error}.",
                    remedy="Check the servers: bullpen server status",
                ) from None
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.2)


async def _is_updated(nc: Client, config: dict[str, Any]) -> bool:
    """Take from a stream what an earlier version allowed and nobody needs. False if it cannot be.

    Its other settings must be the same.
    """
    name = config["name"]
    known = (await api(nc, f"STREAM.INFO.{name}", None, timeout_s=4.0))["config"]
    less = {key: config[key] for key in _NARROWED}
    if all(known.get(key) == value for key, value in less.items()):
        return False
    if any(known.get(key) != value for key, value in config.items() if key not in _NARROWED):
        return False
    await api(nc, f"STREAM.UPDATE.{name}", {**known, **less}, timeout_s=4.0)
    return True


def _stream(name: str, subject: str, replicas: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "discard": "old",
        "storage": "file",
        "num_replicas": replicas,
        "allow_direct": True,
        # The header `Nats-Rollup: all` empties a stream, whatever subject it is on.
        "allow_rollup_hdrs": False,
        "deny_delete": True,
        "deny_purge": True,
        "max_consumers": 1000,
        **fields,
    }


def _team_stream(partition: int, replicas: int) -> dict[str, Any]:
    # Not compressed: if nats-server 2.15.1 is killed while it writes such a stream, it may report
    # "corrupt input" in the last block when it starts again, and that replica stays away.
    return _stream(
        subjects.stream_of(partition),
        f"t.{partition:02d}.>",
        replicas,
        # A snapshot replaces the events of its team. Servers then also allow purging.
        allow_rollup_hdrs=True,
        deny_purge=False,
        max_msg_size=PAYLOAD_MAX,
        duplicate_window=2 * _S,
        republish={"src": f"t.{partition:02d}.>", "dest": f"w.{partition:02d}.>"},
    )


def _bucket(name: str, replicas: int, **fields: Any) -> dict[str, Any]:
    return _stream(
        f"KV_{name}",
        f"$KV.{name}.>",
        replicas,
        max_msgs_per_subject=1,
        discard="new",
        allow_msg_ttl=True,
        **fields,
    )


def _beats(replicas: int, ttl_s: int) -> dict[str, Any]:
    return _bucket("BEATS", replicas, storage="memory", max_age=ttl_s * _S)


def _directory(replicas: int) -> dict[str, Any]:
    return _bucket(subjects.DIRECTORY, replicas, storage="file")


def _presence(replicas: int, partition: int | None = None) -> dict[str, Any]:
    name = subjects.PRESENCE_STREAM
    return _stream(
        name if partition is None else f"{name}_{partition}",
        "p.>" if partition is None else f"q.{partition}.>",
        replicas,
        storage="memory",
        max_age=120 * _S,
        max_msgs_per_subject=1,
        duplicate_window=2 * _S,
    )


def _starts(replicas: int) -> dict[str, Any]:
    made = _stream(
        subjects.STARTS_STREAM,
        "start.>",
        replicas,
        max_age=3600 * _S,
        max_msgs_per_subject=1,
        allow_msg_ttl=True,
        republish={"src": "start.>", "dest": "ws.>"},
    )
    return {**made, "subjects": ["start.>", "took.>"]}


def _orders(replicas: int) -> dict[str, Any]:
    return _stream(
        "ORDERS",
        "o.>",
        replicas,
        storage="memory",
        max_age=600 * _S,
        max_msgs_per_subject=1,
        duplicate_window=2 * _S,
        republish={"src": "o.>", "dest": "wo.>"},
    )
