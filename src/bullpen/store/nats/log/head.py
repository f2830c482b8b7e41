"""Finds the end of a team's log by asking the stream's leader."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer, StoredRow
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import Address


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last message of a log, and whether a majority of the servers agree.

    `refusal` says why the servers store nothing, which is how they would have agreed.
    """

    seq: int
    is_sure: bool
    refusal: str = ""


async def ask(link: NatsConnection, address: Address, known: int, *, timeout_s: float) -> LogEnd:
    """Return the last message according to the leader, and whether it is certainly the leader.

    A leader that was cut off from the others believes for ten more seconds that it leads, and would
    report a log as unchanged that has continued elsewhere. `known` is where the log is known to be.
    Raises NoAnswer.
    """
    client = await link.client()
    bearer, stream = link.bearer, address.stream
    if bearer.reads_only:
        row = await api_requests.last_row(client, stream, address.log, timeout_s=timeout_s)
        return LogEnd(_seq(row), True)
    if bearer.is_bound or not link.is_led(stream):
        return await _ask_all(link, address, known, timeout_s)
    row = await _last_row(link, address, timeout_s)
    return LogEnd(_seq(row), link.is_led(stream))


async def _ask_all(link: NatsConnection, address: Address, known: int, timeout_s: float) -> LogEnd:
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
        return LogEnd(moved.head, False)
    except ApiError as error:
        if not error.is_full:
            raise NoAnswer(str(error)) from None
        # Without room for the question, the leader's word has to do: reading must not need room.
        return LogEnd(_seq(await _last_row(link, address, timeout_s)), True, error.description)
    link.was_led(address.stream, asked)
    return LogEnd(known, True)


async def _last_row(link: NatsConnection, address: Address, timeout_s: float) -> StoredRow | None:
    client = await link.client()
    if not link.bearer.asks_leaders:
        return await api_requests.last_row(client, address.stream, address.log, timeout_s=timeout_s)
    last = {"last_by_subj": address.log}
    return await api_requests.leader_row(client, address.stream, last, timeout_s=timeout_s)


def _seq(row: StoredRow | None) -> int:
    return 0 if row is None else row.seq
