"""Finds the end of a team's log by asking the stream's leader."""

from __future__ import annotations

import time

from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import Address


async def ask(
    link: NatsConnection, address: Address, known: int, *, timeout_s: float
) -> tuple[int, bool]:
    """Return the last message according to the leader, and whether it is certainly the leader.

    A leader that was cut off from the others believes for ten more seconds that it leads, and would
    report a log as unchanged that has continued elsewhere. `known` is where the log is known to be.
    Raises NoAnswer.
    """
    client = await link.client()
    bearer, stream = link.bearer, address.stream
    if bearer.reads_only:
        row = await api_requests.last_row(client, stream, address.log, timeout_s=timeout_s)
        return (0 if row is None else row.seq), True
    if bearer.is_bound or not link.is_led(stream):
        return await _ask_all(link, address, known, timeout_s)
    last = {"last_by_subj": address.log}
    row = await api_requests.leader_row(client, stream, last, timeout_s=timeout_s)
    return (0 if row is None else row.seq), link.is_led(stream)


async def _ask_all(
    link: NatsConnection, address: Address, known: int, timeout_s: float
) -> tuple[int, bool]:
    """Make a majority of servers agree that the log is where it is known to be."""
    client, asked = await link.client(), time.monotonic()
    try:
        await api_requests.append(
            client,
            address.sync,
            b"",
            expect=known,
            expect_on=address.log,
            rollup=True,
            timeout_s=timeout_s,
        )
    except HeadMoved as moved:
        if moved.head is None or 0 < moved.head < known:
            raise NoAnswer("the head is uncertain") from None
        return moved.head, False
    except ApiError as error:
        raise NoAnswer(str(error)) from None
    link.was_led(address.stream, asked)
    return known, True
