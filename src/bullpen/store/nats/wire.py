"""What the client library lacks: batched reads, compare-and-set, errors that can be told apart.

Everything untyped about it stays in here and in `connection`.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Refused, Unavailable
from bullpen.protocol import jsontext
from bullpen.store.nats import asking

_SEQUENCE = re.compile(r"sequence: (\d+)")
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_BATCH = 500

_WRONG_LAST = 10071
_WRONG_LAST_CONSTANT = 10164
_NO_MESSAGE = 10037


class ApiError(Exception):
    """The server understood and said no."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.err_code = int(error.get("err_code") or error.get("code") or 0)
        self.description = str(error.get("description", ""))
        super().__init__(f"{self.description} ({self.err_code})")


class HeadMoved(Exception):
    """A compare-and-set failed. `head` is where the subject is, if the server said it."""

    def __init__(self, head: int | None) -> None:
        self.head = head
        super().__init__(head)


class NoAnswer(Exception):
    """No answer, or none that says what became of it: it may have happened."""


@dataclass(frozen=True, slots=True)
class Row:
    """One stored message. `before` is the sequence of the one before it on its subject."""

    seq: int
    subject: str
    data: bytes
    before: int | None = None


async def request(
    nc: Client, subject: str, data: bytes, *, headers: dict[str, str] | None, timeout_s: float
) -> Msg:
    """Ask and wait for the answer. Raises NoAnswer, and Refused for want of rights."""
    try:
        return await asking.ask(nc, subject, data, headers=headers, timeout_s=timeout_s)
    except (nats_errors.Error, OSError, asyncio.InvalidStateError) as error:
        raise NoAnswer(type(error).__name__) from None
    except TimeoutError:
        raise NoAnswer("TimeoutError") from None
    except asking.Denied:
        raise Refused(
            f"Your credentials do not allow to write to {subject}.",
            reason="not_permitted",
            remedy="Ask for others: bullpen auth mint. Nothing was changed.",
        ) from None


async def api(nc: Client, call: str, body: object, *, timeout_s: float) -> dict[str, Any]:
    """Call the JetStream API. Raises ApiError and Unavailable."""
    data = b"" if body is None else jsontext.dumps_line(body)
    try:
        answer = await request(nc, f"$JS.API.{call}", data, headers=None, timeout_s=timeout_s)
    except NoAnswer as error:
        raise Unavailable(
            f"The NATS server did not answer {call!r}: {error}.",
            remedy="See that JetStream runs and has a leader: bullpen server status",
        ) from None
    return _checked(answer)


def _checked(answer: Msg) -> dict[str, Any]:
    raw = jsontext.loads(answer.data)
    if not isinstance(raw, dict):
        raise NoAnswer("the answer is no object")
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
    timeout_s: float,
) -> int:
    """Store a message if the last one on its subject (or on `expect_on`) is `expect`.

    Returns its sequence.

    Raises:
        HeadMoved: it is not.
        ApiError: the server refused for another reason; nothing was stored.
        NoAnswer: it is not known whether it was stored.
    """
    headers = {_EXPECTED: str(expect)}
    if rollup:
        headers["Nats-Rollup"] = "sub"
    if expect_on is not None:
        headers[f"{_EXPECTED}-Subject"] = expect_on
    return await _stored(nc, subject, data, headers, timeout_s)


async def replace(nc: Client, subject: str, data: bytes, *, timeout_s: float) -> int:
    """Store a message in the place of all that are on its subject."""
    return await _stored(nc, subject, data, {"Nats-Rollup": "sub"}, timeout_s)


async def publish_once(nc: Client, subject: str, data: bytes, *, key: str, timeout_s: float) -> int:
    """Store a message unless one with the same key was stored a moment ago."""
    return await _stored(nc, subject, data, {"Nats-Msg-Id": key}, timeout_s)


async def _stored(
    nc: Client, subject: str, data: bytes, headers: dict[str, str], timeout_s: float
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
) -> Row | None:
    """One message as the leader of the stream has it; None if there is none.

    Raises NoAnswer, also if there is no leader.
    """
    call = f"$JS.API.STREAM.MSG.GET.{stream}"
    answer = await request(nc, call, jsontext.dumps_line(ask), headers=None, timeout_s=timeout_s)
    try:
        raw = _checked(answer)["message"]
        data = base64.b64decode(raw.get("data", ""))
        return Row(int(raw["seq"]), str(raw["subject"]), data)
    except ApiError as error:
        if error.err_code == _NO_MESSAGE:
            return None
        raise NoAnswer(str(error)) from None
    except (ValueError, KeyError):
        raise NoAnswer("the answer cannot be read") from None


async def last_row(nc: Client, stream: str, subject: str, *, timeout_s: float) -> Row | None:
    """The last message of one subject as some replica has it: it may be behind."""
    call = f"$JS.API.DIRECT.GET.{stream}.{subject}"
    answer = await request(nc, call, b"", headers=None, timeout_s=timeout_s)
    status = (answer.headers or {}).get("Status")
    if status == "404":
        return None
    if status:
        raise NoAnswer(f"status {status}")
    return row_of(answer)


def row_of(message: Msg) -> Row:
    """A message as a direct get or a republication brings it. Raises NoAnswer."""
    headers = message.headers or {}
    try:
        before = headers.get("Nats-Last-Sequence")
        return Row(
            int(headers["Nats-Sequence"]),
            headers.get("Nats-Subject", message.subject),
            message.data,
            None if before is None else int(before),
        )
    except (KeyError, ValueError):
        raise NoAnswer("a message without its sequence") from None


@dataclass(slots=True)
class _Answer:
    """What came so far of an answer in many messages, and the message that ends it."""

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
    ) -> list[Row]:
        """The messages that match a subject from a sequence on, as some replica has them.

        Raises NoAnswer.
        """
        rows: list[Row] = []
        while True:
            batch = _BATCH if limit is None else min(_BATCH, limit - len(rows))
            ask = {"seq": max(first, 1), "next_by_subj": subject, "batch": batch}
            found, pending = await self._ask(stream, ask, timeout_s)
            rows += found
            if not found or not pending or len(rows) == limit:
                return rows
            first = found[-1].seq + 1

    async def last_rows(self, stream: str, wanted: Sequence[str], *, timeout_s: float) -> list[Row]:
        """The last message of every subject that matches, at most 1,024. Raises NoAnswer."""
        return (await self._ask(stream, {"multi_last": list(wanted)}, timeout_s))[0]

    async def _ask(
        self, stream: str, ask: Mapping[str, object], timeout_s: float
    ) -> tuple[list[Row], int]:
        self._count += 1
        reply = f"{self._prefix}.{self._count}"
        answer = self._waiting[reply] = _Answer([], asyncio.get_running_loop().create_future())
        try:
            if self._count == 1:
                await asking.listen(self._nc, f"{self._prefix}.*", self._take)
            call = f"$JS.API.DIRECT.GET.{stream}"
            await self._nc.publish(call, jsontext.dumps_line(ask), reply=reply)
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
            case status:
                raise NoAnswer(f"status {status}")

    async def _end_of(self, answer: _Answer, timeout_s: float) -> Msg:
        """Wait for the end as long as there is something new in time."""
        count = -1
        while not answer.end.done() and len(answer.messages) > count:
            count = len(answer.messages)
            await asyncio.wait([answer.end], timeout=timeout_s)
        if not answer.end.done():
            raise NoAnswer("TimeoutError")
        return answer.end.result()
