"""Where the log of a team ends, by the word of those who decide it."""

from __future__ import annotations

import time

from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import ApiError, HeadMoved, NoAnswer


async def ask(
    link: Connection, address: Address, known: int, *, timeout_s: float
) -> tuple[int, bool]:
    """The last message by the word of the leader; and whether it certainly is the leader.

    One that was cut off from the others takes itself for the leader for ten seconds more, and
    would call a log unchanged that has gone on elsewhere. `known` is where the log is known to be.

    Raises NoAnswer.
    """
    client = await link.client()
    bearer, stream = link.bearer, address.stream
    if bearer.reads_only:
        row = await wire.last_row(client, stream, address.log, timeout_s=timeout_s)
        return (0 if row is None else row.seq), True
    if bearer.is_bound or not link.is_led(stream):
        return await _ask_all(link, address, known, timeout_s)
    last = {"last_by_subj": address.log}
    row = await wire.leader_row(client, stream, last, timeout_s=timeout_s)
    return (0 if row is None else row.seq), link.is_led(stream)


async def _ask_all(
    link: Connection, address: Address, known: int, timeout_s: float
) -> tuple[int, bool]:
    """Have most of the servers agree that the log is where it is known to be."""
    client, asked = await link.client(), time.monotonic()
    try:
        await wire.append(
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
            raise NoAnswer("the head is in doubt") from None
        return moved.head, False
    except ApiError as error:
        raise NoAnswer(str(error)) from None
    link.was_led(address.stream, asked)
    return known, True
