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

    async def ask(
        self, subject: str, data: bytes, headers: dict[str, str] | None, timeout_s: float
    ) -> Msg:
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
        timer = loop.call_later(timeout_s, _expire, future)
        try:
            await nc.publish(subject, data, reply=reply, headers=headers)
            answer = await future
        finally:
            timer.cancel()
            del self._waiting[reply], self._asked[reply]
        if answer.headers and answer.headers.get("Status") == _NO_RESPONDERS:
            raise nats_errors.NoRespondersError
        return answer


def _expire(future: asyncio.Future[Msg]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def complaint(nc: Client, error: Exception) -> None:
    """Read a server's error, and tell whoever waits for an answer that will not come."""
    found = _DENIED.search(str(error))
    if found is not None and nc in _asking:
        _asking[nc].deny(found[1])


_asking: WeakKeyDictionary[Client, _Asking] = WeakKeyDictionary()


async def ask(
    nc: Client, subject: str, data: bytes, *, headers: dict[str, str] | None, timeout_s: float
) -> Msg:
    """Ask and wait for the answer.

    Raises TimeoutError, Denied if the credentials do not allow it, and nats.errors.Error if nobody
    can answer or the request could not be sent.
    """
    asking = _asking.get(nc)
    if asking is None:
        asking = _asking[nc] = _Asking(nc)
    return await asking.ask(subject, data, headers, timeout_s)
