"""Requests and subscriptions without a queue or task in between, because every commit uses them.

The client library puts each message into a queue that one task per subscription empties, and
creates a name for each request. It hands a message for a `future` over at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from collections.abc import Callable
from weakref import WeakKeyDictionary

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

_log = logging.getLogger(__name__)

_NO_RESPONDERS = "503"
_LOOK_S = 0.02

_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)

Take = Callable[[Msg], None]


class Denied(Exception):
    """The credentials do not allow publishing to a subject. The server reports it separately."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        super().__init__(subject)


class _Ear(asyncio.Future[Msg]):
    """A future that is never done: it passes on whatever it is set to."""

    def __init__(self, take: Take) -> None:
        super().__init__()
        self._take = take

    def set_result(self, message: Msg) -> None:
        try:
            self._take(message)
        except Exception:
            # Whatever happens, reading from the connection must continue.
            _log.exception("a message on %s could not be processed", message.subject)


class DirectClient(Client):
    """A client that hands over a message for `listen` at once.

    Almost all messages are such: answers to commits, and what is read or repeated from a log. The
    library does a lot for each, most of all for headers.
    """

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        heard_by = self._subs.get(sid)
        if heard_by is None or not isinstance(heard_by._future, _Ear):
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        found = headers_in(headers) if headers else None
        heard_by._future.set_result(Msg(self, subject.decode(), reply.decode(), data, found))


def headers_in(data: bytes) -> dict[str, str]:
    """Return the headers of a message, with the status of its first line, if it has one."""
    first, *lines = data.decode("utf-8", "replace").split("\r\n")
    found: dict[str, str] = {}
    words = first.split(" ", 2)
    if len(words) > 1 and words[1].isdigit():
        found["Status"] = words[1]
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found[name] = value.strip()
    return found


async def listen(nc: Client, subject: str, take: Take) -> Subscription:
    """Call `take` with every message on a subject, at the moment it is read."""
    return await nc.subscribe(subject, future=_Ear(take))


class _Asking:
    """The requests of one connection, over one subscription."""

    def __init__(self, nc: Client) -> None:
        # The client refers to it, so both go away together.
        self._client = weakref.ref(nc)
        self._prefix = nc.new_inbox()
        self._count = 0
        self._listens = False
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._asked: dict[str, str] = {}
        # Until when each may wait: one timer for all, because almost none is ever needed.
        self._until: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def _take(self, message: Msg) -> None:
        future = self._waiting.get(message.subject)
        if future is not None and not future.done():
            future.set_result(message)

    def deny(self, subject: str) -> None:
        """Tell those who wait for an answer from a forbidden subject."""
        for reply, asked in self._asked.items():
            future = self._waiting[reply]
            if asked == subject and not future.done():
                future.set_exception(Denied(subject))

    async def ask(self, subject: str, data: bytes, headers: str | None, timeout_s: float) -> Msg:
        """Publish and wait for the first answer."""
        nc = self._client()
        if nc is None:
            raise nats_errors.ConnectionClosedError
        self._count += 1
        reply = f"{self._prefix}.{self._count}"
        if not self._listens:
            self._listens = True
            await listen(nc, f"{self._prefix}.*", self._take)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Msg] = loop.create_future()
        self._waiting[reply], self._asked[reply] = future, subject
        self._until[reply] = loop.time() + timeout_s
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_S, self._expire, loop)
        try:
            if headers is None:
                await nc.publish(subject, data, reply=reply)
            else:
                await _publish_with(nc, headers, subject, data, reply)
            answer = await future
        finally:
            del self._waiting[reply], self._asked[reply], self._until[reply]
        if answer.headers and answer.headers.get("Status") == _NO_RESPONDERS:
            raise nats_errors.NoRespondersError
        return answer

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the questions that have waited long enough, and look again later."""
        now = loop.time()
        for reply, until in self._until.items():
            future = self._waiting[reply]
            if until <= now and not future.done():
                future.set_exception(TimeoutError())
        self._timer = loop.call_later(_LOOK_S, self._expire, loop) if self._until else None


async def _publish_with(nc: Client, headers: str, subject: str, data: bytes, reply: str) -> None:
    """Publish with headers, as the library does, but without checking each of them."""
    if not nc.is_connected:
        # It knows how much may wait for a server.
        pairs = dict(line.split(": ", 1) for line in headers.splitlines())
        await nc.publish(subject, data, reply=reply, headers=pairs)
        return
    if len(data) > nc.max_payload:
        raise nats_errors.MaxPayloadError
    head = f"NATS/1.0\r\n{headers}\r\n"
    size = len(head)
    command = f"HPUB {subject} {reply} {size} {size + len(data)}\r\n{head}".encode()
    await nc._send_command(b"%b%b\r\n" % (command, data))
    if nc._flush_queue is not None and nc._flush_queue.empty():
        await nc._flush_pending()


def complaint(nc: Client, error: Exception) -> None:
    """Read a server's error, and tell whoever waits for an answer that will not come."""
    found = _DENIED.search(str(error))
    if found is not None and nc in _asking:
        _asking[nc].deny(found[1])


_asking: WeakKeyDictionary[Client, _Asking] = WeakKeyDictionary()


async def ask(
    nc: Client, subject: str, data: bytes, *, headers: str | None, timeout_s: float
) -> Msg:
    """Ask and wait for the answer. `headers` are complete lines.

    Raises TimeoutError, Denied if the credentials do not allow it, and nats.errors.Error if nobody
    can answer or the request could not be sent.
    """
    asking = _asking.get(nc)
    if asking is None:
        asking = _asking[nc] = _Asking(nc)
    return await asking.ask(subject, data, headers, timeout_s)
