"""Batched reads, compare-and-set and distinct errors, which the client library lacks.

Everything untyped about the library stays in this module and in `connection`.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Refused, Unavailable
from bullpen.protocol import json_text
from bullpen.store.nats.client import mux

_SEQUENCE = re.compile(r"sequence: (\d+)")
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_BATCH = 500

_WRONG_LAST = 10071
_WRONG_LAST_CONSTANT = 10164
_NO_MESSAGE = 10037
_STORE_FAILED = 10077
# Limits of the account, of the server, in memory and on disk.
_FULL = frozenset({10002, 10023, 10028, 10047})
NO_STREAM = 10059
"""The server's code for a stream that does not exist."""


class ApiError(Exception):
    """The server understood the request and refused it."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.err_code = int(error.get("err_code") or error.get("code") or 0)
        self.description = str(error.get("description", ""))
        super().__init__(f"{self.description} ({self.err_code})")

    @property
    def is_full(self) -> bool:
        """Return whether a limit left no room, so that nothing was stored."""
        return self.err_code in _FULL or (
            self.err_code == _STORE_FAILED and "exceeded" in self.description
        )


class HeadMoved(Exception):
    """A compare-and-set failed. `head` is where the subject is, if the server said so."""

    def __init__(self, head: int | None) -> None:
        self.head = head
        super().__init__(head)


class NoAnswer(Exception):
    """No answer, or an unclear one: the request may have been carried out."""


class NoStream(NoAnswer):
    """No server has the stream: it is gone, or, unless `certain`, it has no leader now."""

    def __init__(self, *, certain: bool = False) -> None:
        self.certain = certain
        super().__init__("the stream is missing")


@contextmanager
def unavailable_if_unanswered(what: str) -> Iterator[None]:
    """Turn a missing answer or a refusal into Unavailable; `what` says what failed."""
    try:
        yield
    except NoStream as error:
        raise Unavailable(
            f"{what} ({error}).",
            remedy="If `bullpen server status` shows all servers, create the stream again: "
            "bullpen server prepare",
        ) from None
    except (NoAnswer, ApiError) as error:
        raise Unavailable(
            f"{what} ({error}).", remedy="Check the servers: bullpen server status"
        ) from None


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One stored message. `before` is the sequence of the previous one on its subject."""

    seq: int
    subject: str
    data: bytes
    before: int | None = None


async def request(
    nc: Client, subject: str, data: bytes, *, headers: str | None, timeout_s: float
) -> Msg:
    """Ask and wait for the answer. Raises NoAnswer, or Refused without the right."""
    try:
        return await mux.ask(nc, subject, data, headers=headers, timeout_s=timeout_s)
    except nats_errors.NoRespondersError:
        raise NoStream from None
    except (nats_errors.Error, OSError, asyncio.InvalidStateError) as error:
        raise NoAnswer(type(error).__name__) from None
    except TimeoutError:
        raise NoAnswer("TimeoutError") from None
    except mux.Denied:
        raise Refused(
            f"Your credentials do not allow writing to {subject}.",
            reason="not_permitted",
            remedy="Nothing was changed. Ask for other credentials: bullpen auth mint",
        ) from None


async def api(nc: Client, call: str, body: object, *, timeout_s: float) -> dict[str, Any]:
    """Call the JetStream API. Raises ApiError and Unavailable."""
    data = b"" if body is None else json_text.dumps_line(body)
    try:
        answer = await request(nc, f"$JS.API.{call}", data, headers=None, timeout_s=timeout_s)
    except NoAnswer as error:
        raise Unavailable(
            f"The NATS server did not answer {call!r}: {error}.",
            remedy="Check that JetStream runs and has a leader: bullpen server status",
        ) from None
    return _checked(answer)


def _checked(answer: Msg) -> dict[str, Any]:
    raw = json_text.loads(answer.data)
    if not isinstance(raw, dict):
        raise NoAnswer("the answer is not an object")
    if "error" in raw:
        raise ApiError(raw["error"])
    return raw


async def append(
    nc: Client,
    subject: str,
    data: bytes,
    *,
    expect: int,
    rollup: bool = False,
    expect_on: str | None = None,
    ttl_s: int | None = None,
    timeout_s: float,
) -> int:
    """Store a message if the last one on its subject (or on `expect_on`) is `expect`.

    Returns its sequence. Raises HeadMoved if it is not, ApiError if the server refused for another
    reason and stored nothing, NoAnswer if it is unknown whether it was stored.
    """
    headers = f"{_EXPECTED}: {expect}\r\n"
    if rollup:
        headers += "Nats-Rollup: sub\r\n"
    if expect_on is not None:
        headers += f"{_EXPECTED}-Subject: {expect_on}\r\n"
    if ttl_s is not None:
        headers += f"Nats-TTL: {ttl_s}s\r\n"
    return await _stored(nc, subject, data, headers, timeout_s)


async def replace(nc: Client, subject: str, data: bytes, *, timeout_s: float) -> int:
    """Store a message in a stream that keeps one for each subject."""
    return await _stored(nc, subject, data, None, timeout_s)


async def _stored(
    nc: Client, subject: str, data: bytes, headers: str | None, timeout_s: float
) -> int:
    answer = await request(nc, subject, data, headers=headers, timeout_s=timeout_s)
    try:
        return int(_checked(answer)["seq"])
    except ApiError as error:
        if error.err_code in (_WRONG_LAST, _WRONG_LAST_CONSTANT):
            found = _SEQUENCE.search(error.description)
            raise HeadMoved(int(found[1]) if found else None) from None
        raise
    except (ValueError, KeyError):
        raise NoAnswer("the answer cannot be read") from None


async def leader_row(
    nc: Client, stream: str, ask: Mapping[str, object], *, timeout_s: float
) -> StoredRow | None:
    """Return one message as the leader of the stream has it, or None. Raises NoAnswer."""
    call = f"$JS.API.STREAM.MSG.GET.{stream}"
    answer = await request(nc, call, json_text.dumps_line(ask), headers=None, timeout_s=timeout_s)
    try:
        raw = _checked(answer)["message"]
        data = base64.b64decode(raw.get("data", ""))
        return StoredRow(int(raw["seq"]), str(raw["subject"]), data)
    except ApiError as error:
        if error.err_code == _NO_MESSAGE:
            return None
        if error.err_code == NO_STREAM:
            raise NoStream(certain=True) from None
        raise NoAnswer(str(error)) from None
    except (ValueError, KeyError):
        raise NoAnswer("the answer cannot be read") from None


async def last_row(nc: Client, stream: str, subject: str, *, timeout_s: float) -> StoredRow | None:
    """Return the last message of one subject as some replica has it, which may be outdated."""
    call = f"$JS.API.DIRECT.GET.{stream}.{subject}"
    answer = await request(nc, call, b"", headers=None, timeout_s=timeout_s)
    status = (answer.headers or {}).get("Status")
    if status == "404":
        return None
    if status:
        raise NoAnswer(f"status {status}")
    return row_of(answer)


def row_of(message: Msg) -> StoredRow:
    """Parse a message from a direct get or a republication. Raises NoAnswer."""
    headers = message.headers or {}
    try:
        before = headers.get("Nats-Last-Sequence")
        return StoredRow(
            int(headers["Nats-Sequence"]),
            headers.get("Nats-Subject", message.subject),
            message.data,
            None if before is None else int(before),
        )
    except (KeyError, ValueError):
        raise NoAnswer("the message has no sequence") from None


@dataclass(slots=True)
class _Answer:
    """The messages of a long answer so far, and the message that ends it."""

    messages: list[Msg]
    end: asyncio.Future[Msg]


class Reader:
    """Reads many messages with one request, over one subscription of its own."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._prefix = nc.new_inbox()
        self._count = 0
        self._waiting: dict[str, _Answer] = {}

    def _take(self, message: Msg) -> None:
        answer = self._waiting.get(message.subject)
        if answer is None:
            return
        if "Status" not in (message.headers or {}):
            answer.messages.append(message)
        elif not answer.end.done():
            answer.end.set_result(message)

    async def rows(
        self,
        stream: str,
        subject: str,
        first: int,
        *,
        timeout_s: float,
        limit: int | None = None,
    ) -> list[StoredRow]:
        """Return a subject's messages from a sequence on, as a replica has it. Raises NoAnswer."""
        rows: list[StoredRow] = []
        while True:
            batch = _BATCH if limit is None else min(_BATCH, limit - len(rows))
            ask = {"seq": max(first, 1), "next_by_subj": subject, "batch": batch}
            found, pending = await self._ask(stream, ask, timeout_s)
            rows += found
            if not found or not pending or len(rows) == limit:
                return rows
            first = found[-1].seq + 1

    async def last_rows(
        self, stream: str, wanted: Sequence[str], *, timeout_s: float
    ) -> list[StoredRow]:
        """Return the last message of each matching subject, at most 1,024. Raises NoAnswer."""
        return (await self._ask(stream, {"multi_last": list(wanted)}, timeout_s))[0]

    async def _ask(
        self, stream: str, ask: Mapping[str, object], timeout_s: float
    ) -> tuple[list[StoredRow], int]:
        self._count += 1
        reply = f"{self._prefix}.{self._count}"
        answer = self._waiting[reply] = _Answer([], asyncio.get_running_loop().create_future())
        try:
            if self._count == 1:
                await mux.listen(self._nc, f"{self._prefix}.*", self._take)
            call = f"$JS.API.DIRECT.GET.{stream}"
            await self._nc.publish(call, json_text.dumps_line(ask), reply=reply)
            end = await self._end_of(answer, timeout_s)
        except (nats_errors.Error, OSError) as error:
            raise NoAnswer(type(error).__name__) from None
        finally:
            del self._waiting[reply]
        rows = [row_of(message) for message in answer.messages]
        headers = end.headers or {}
        match headers.get("Status"):
            case "204":
                return rows, int(headers.get("Nats-Num-Pending") or 0)
            case "404":
                return rows, 0
            case "503":
                raise NoStream
            case status:
                raise NoAnswer(f"status {status}")

    async def _end_of(self, answer: _Answer, timeout_s: float) -> Msg:
        """Wait for the end, as long as new messages keep coming in time."""
        count = -1
        while not answer.end.done() and len(answer.messages) > count:
            count = len(answer.messages)
            await asyncio.wait([answer.end], timeout=timeout_s)
        if not answer.end.done():
            raise NoAnswer("TimeoutError")
        return answer.end.result()
