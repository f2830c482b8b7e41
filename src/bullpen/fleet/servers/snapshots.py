"""Saves one stream to a file and restores it: a JetStream API that the client library lacks."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from anyio import to_thread
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Conflict, Unavailable
from bullpen.protocol import json_text
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer, api, request

_CHUNK_BYTES = 512 * 1024
_ANSWER_S = 30.0
_NEXT_CHUNK_S = 60.0
_FINISH_S = 600.0
_NAME_IN_USE = (10058, 10130)
_AGAIN = "Try again. If it keeps failing, check: bullpen server status"


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """What was saved of a stream: its configuration, its state, and the file with its content."""

    config: dict[str, Any]
    state: dict[str, Any]
    size: int
    sha256: str


async def take(nc: Client, stream: str, path: Path) -> StreamSnapshot:
    """Write a whole stream, as it is at one moment, to a new file. Writing to it continues.

    The server checks every message first; with a damaged message it gives none out. Raises
    Unavailable if it refused, or stopped half-way: the file is not a snapshot then.
    """
    chunks: asyncio.Queue[Msg] = asyncio.Queue()

    async def keep(message: Msg) -> None:
        chunks.put_nowait(message)

    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox, cb=keep)
    reconnects = nc.stats["reconnects"]
    try:
        told = await _asked(
            nc,
            f"STREAM.SNAPSHOT.{stream}",
            {"deliver_subject": inbox, "chunk_size": _CHUNK_BYTES, "jsck": True},
            what=f"A snapshot of stream {stream}",
        )
        with _new_file(path) as file:
            size, digest = await _received(nc, stream, chunks, file)
            await to_thread.run_sync(_sync, file)
    finally:
        # Without a connection, the subscription is gone as well.
        with suppress(nats_errors.Error):
            await subscription.unsubscribe()
    if nc.stats["reconnects"] != reconnects:
        # What was sent while nobody listened is missing, and nothing in the file would show it.
        raise _broke_off(stream, "the connection was lost for a moment")
    return StreamSnapshot(dict(told["config"]), dict(told["state"]), size, digest)


async def put_back(
    nc: Client, config: Mapping[str, Any], state: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    """Create a stream from a file, with configuration `config`. Returns its state.

    Raises Conflict if there is a stream with that name, and Unavailable.
    """
    stream = str(config["name"])
    what = f"Restoring stream {stream}"
    told = await _asked(
        nc, f"STREAM.RESTORE.{stream}", {"config": config, "state": state}, what=what
    )
    subject = str(told["deliver_subject"])
    with path.open("rb") as file:
        while chunk := await to_thread.run_sync(file.read, _CHUNK_BYTES):
            await _sent(nc, subject, chunk, what=what, timeout_s=_ANSWER_S)
    # An empty chunk is the end; the answer to it is the stream.
    made = await _sent(nc, subject, b"", what=what, timeout_s=_FINISH_S)
    return dict(made["state"])


async def _received(
    nc: Client, stream: str, chunks: asyncio.Queue[Msg], file: BinaryIO
) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    while True:
        try:
            async with asyncio.timeout(_NEXT_CHUNK_S):
                chunk = await chunks.get()
        except TimeoutError:
            raise _broke_off(stream, f"nothing arrived for {_NEXT_CHUNK_S:g} s") from None
        if not chunk.data:
            _refuse_bad_end(stream, chunk)
            return size, digest.hexdigest()
        await to_thread.run_sync(file.write, chunk.data)
        digest.update(chunk.data)
        size += len(chunk.data)
        if chunk.reply:
            # The server sends a few chunks ahead and waits for these confirmations before more.
            await nc.publish(chunk.reply, b"")


def _refuse_bad_end(stream: str, end: Msg) -> None:
    headers = end.headers or {}
    status = headers.get("Status") or "204"
    if not status.startswith("2"):
        raise _broke_off(stream, headers.get("Description") or f"status {status}")


async def _asked(nc: Client, call: str, body: Mapping[str, object], *, what: str) -> dict[str, Any]:
    try:
        return await api(nc, call, body, timeout_s=_ANSWER_S)
    except ApiError as error:
        raise _refused(what, error) from None


async def _sent(
    nc: Client, subject: str, chunk: bytes, *, what: str, timeout_s: float
) -> dict[str, Any]:
    try:
        answer = await request(nc, subject, chunk, headers=None, timeout_s=timeout_s)
    except NoAnswer as error:
        raise Unavailable(f"{what} was interrupted: {error}.", remedy=_AGAIN) from None
    told = json_text.loads(answer.data) if answer.data else {}
    if not isinstance(told, dict):
        raise Unavailable(f"{what} was interrupted: an answer cannot be read.", remedy=_AGAIN)
    if "error" in told:
        raise _refused(what, ApiError(told["error"]))
    return told


def _refused(what: str, error: ApiError) -> Unavailable | Conflict:
    if error.err_code in _NAME_IN_USE:
        return Conflict(
            f"{what} was refused: there is a stream with that name.",
            remedy="Restore to servers that have no data yet.",
        )
    return Unavailable(f"{what} was refused by the server: {error}.", remedy=_AGAIN)


def _broke_off(stream: str, why: str) -> Unavailable:
    return Unavailable(f"The snapshot of stream {stream} was interrupted: {why}.", remedy=_AGAIN)


def _new_file(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return open(os.open(path, flags, 0o600), "wb")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
