"""Orders to hosts, and their answers, between keys that are in different accounts.

Both are stored for a moment and repeated by the server, because nothing else that one account says
is heard in another. The last part of their subjects is known only to those two.
"""

from __future__ import annotations

import asyncio
import secrets

from nats import errors as nats_errors
from nats.aio.msg import Msg

from bullpen.store.nats.client import mux
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer, replace
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import with_stream
from bullpen.store.nats.client.subjects import token

_TRY_S = 5.0
_NOBODY = "nobody"
_STREAM = "ORDERS"


def orders_heard_at(host: str) -> str:
    """Return what the subjects match on which a host hears orders."""
    return f"wo.ctl.{token(host)}.*.*"


async def send_order(link: NatsConnection, host: str, data: bytes, *, timeout_s: float) -> bytes:
    """Send an order to a host. Returns its answer. Raises NoAnswer, Refused, Unavailable."""
    client = await link.client()
    asker, secret = link.bearer.name or _NOBODY, secrets.token_hex(16)
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def take(message: Msg) -> None:
        if not answered.done():
            answered.set_result(message.data)

    try:
        subscription = await mux.listen(client, f"wo.answer.{asker}.{secret}", take)
        try:
            await client.flush(timeout=2)
            async with asyncio.timeout(timeout_s):
                subject = f"o.ctl.{token(host)}.{asker}.{secret}"
                await with_stream(
                    link, _STREAM, lambda: replace(client, subject, data, timeout_s=timeout_s)
                )
                return await answered
        finally:
            if not client.is_closed:
                await subscription.unsubscribe()
    except (nats_errors.Error, OSError, TimeoutError, ApiError) as error:
        raise NoAnswer(type(error).__name__) from None


async def answer_order(link: NatsConnection, order: Msg, data: bytes) -> None:
    """Answer an order, to the key that gave it. Raises NoAnswer, ApiError, Unavailable."""
    asker, secret = order.subject.split(".")[-2:]
    client, subject = await link.client(), f"o.answer.{asker}.{secret}"
    await with_stream(link, _STREAM, lambda: replace(client, subject, data, timeout_s=_TRY_S))
