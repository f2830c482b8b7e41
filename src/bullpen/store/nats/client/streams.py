"""Creates and checks the streams that a cell needs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from nats.aio.client import Client

from bullpen.errors import Conflict, Invalid, Unavailable
from bullpen.protocol import json_text
from bullpen.store.nats.client import subjects
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer, api, leader_row

PAYLOAD_MAX = 8 * 1024 * 1024 - 64 * 1024
"""The longest message that is stored; servers accept 8 MB with headers."""

_S = 1_000_000_000
_STREAM_EXISTS = 10058
_NOT_YET = frozenset({10005, 10008, 10009, 10023, 10049, 10074})
_PATIENCE_S = 45.0


async def prepare(
    nc: Client, *, partitions: int = 1, replicas: int = 1, beats_ttl_s: int = 30
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
    for config in [
        *(_team_stream(partition, replicas) for partition in range(partitions)),
        _directory(replicas),
        _presence(replicas),
        _bucket("HOSTS", replicas, storage="file"),
        _bucket("BEATS", replicas, storage="memory", max_age=beats_ttl_s * _S),
        _spawn(replicas),
    ]:
        await _ensure(nc, config)
    cell = json_text.dumps_line({"v": 1, "partitions": partitions, "replicas": replicas})
    await nc.request(subjects.CELL_KEY, cell, timeout=10)


async def _partitions_before(nc: Client) -> int:
    try:
        ask = {"last_by_subj": subjects.CELL_KEY}
        row = await leader_row(nc, subjects.DIRECTORY_STREAM, ask, timeout_s=4.0)
    except NoAnswer:
        # Most probably there is no such stream yet.
        return 0
    return 0 if row is None else int(json_text.loads(row.data)["partitions"])


async def _ensure(nc: Client, config: dict[str, Any]) -> None:
    """Create a stream. Servers that have just met need a moment to place it."""
    name = config["name"]
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            await api(nc, f"STREAM.CREATE.{name}", config, timeout_s=4.0)
        except ApiError as error:
            if error.err_code == _STREAM_EXISTS:
                raise Conflict(
                    f"The server has a stream {name!r} with another configuration.",
                    remedy="Use another server or account, or remove that stream.",
                ) from None
            if time.monotonic() > deadline or error.err_code not in _NOT_YET:
                raise Unavailable(
                    f"The server did not create the stream {name!r}: {error}.",
                    remedy="Check the servers: bullpen server status",
                ) from None
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        else:
            return
        await asyncio.sleep(0.2)


def _stream(name: str, subject: str, replicas: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "discard": "old",
        "storage": "file",
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
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


def _directory(replicas: int) -> dict[str, Any]:
    return _bucket(subjects.DIRECTORY, replicas, storage="file")


def _presence(replicas: int) -> dict[str, Any]:
    return _stream(
        subjects.PRESENCE_STREAM,
        "p.>",
        replicas,
        storage="memory",
        max_age=120 * _S,
        max_msgs_per_subject=1,
        duplicate_window=2 * _S,
    )


def _spawn(replicas: int) -> dict[str, Any]:
    return _stream(
        "SPAWN",
        "spawn.>",
        replicas,
        retention="workqueue",
        deny_delete=False,
        max_age=3600 * _S,
        republish={"src": "spawn.>", "dest": "ws.>"},
    )
