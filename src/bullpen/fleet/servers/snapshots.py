"""One stream as a file, and back: the part of the JetStream API that the client library lacks."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from anyio import to_thread
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Conflict, Unavailable
from bullpen.protocol import jsontext
from bullpen.store.nats.wire import ApiError, NoAnswer, api, request

_CHUNK_BYTES = 512 * 1024
_ANSWER_S = 30.0
_NEXT_CHUNK_S = 60.0
_FINISH_S = 600.0
_NAME_IN_USE = (10058, 10130)
_AGAIN = "Try again; if it goes on, look at: bullpen server status"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was taken of a stream: its form, what it held, and the file that holds it."""

    config: dict[str, Any]
    state: dict[str, Any]
    size: int
    sha256: str


async def take(nc: Client, stream: str, path: Path) -> Snapshot:
    """Write all of a stream, as it is at one moment, into a new file. Writing to it goes on.

    The server checks every message before; one that holds a damaged message gives none out.

    Raises:
        Unavailable: the server refused, or stopped in the middle. The file is no snapshot then.
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
        await _unsubscribed(subscription)
    if nc.stats["reconnects"] != reconnects:
        # What was sent while nobody listened is missing, and nothing in the file would show it.
        raise _broke_off(stream, "the connection was lost for a moment")
    return Snapshot(dict(told["config"]), dict(told["state"]), size, digest)


async def put_back(
    nc: Client, config: Mapping[str, Any], state: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    """Make a stream from a file, in the form that `config` says; what it holds then.

    Raises:
        Conflict: there is a stream of that name.
        Unavailable: the server refused, or what it was sent.
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
            raise _broke_off(stream, f"nothing came for {_NEXT_CHUNK_S:g} s") from None
        if not chunk.data:
            _refuse_bad_end(stream, chunk)
            return size, digest.hexdigest()
        await to_thread.run_sync(file.write, chunk.data)
        digest.update(chunk.data)
        size += len(chunk.data)
        if chunk.reply:
            # The server sends a few chunks ahead and waits for these words before more.
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
        raise Unavailable(f"{what} broke off: {error}.", remedy=_AGAIN) from None
    told = jsontext.loads(answer.data) if answer.data else {}
    if not isinstance(told, dict):
        raise Unavailable(f"{what} broke off: an answer cannot be read.", remedy=_AGAIN)
    if "error" in told:
        raise _refused(what, ApiError(told["error"]))
    return told


def _refused(what: str, error: ApiError) -> Unavailable | Conflict:
    if error.err_code in _NAME_IN_USE:
        return Conflict(
            f"{what} was refused: there is a stream of that name.",
            remedy="Restore into servers that hold nothing yet.",
        )
    return Unavailable(f"{what} was refused by the server: {error}.", remedy=_AGAIN)


def _broke_off(stream: str, why: str) -> Unavailable:
    return Unavailable(f"The snapshot of stream {stream} broke off: {why}.", remedy=_AGAIN)


def _new_file(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return open(os.open(path, flags, 0o600), "wb")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


async def _unsubscribed(subscription: Any) -> None:
    unsubscribe: Callable[[], Any] = subscription.unsubscribe
    try:
        await unsubscribe()
    except nats_errors.Error:
        # The connection is gone, and the subscription with it.
        return
