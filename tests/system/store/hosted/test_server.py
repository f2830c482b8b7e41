"""The socket: who gets in, what is let through, and that nobody is in another's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import pytest

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.hosted import frames as wire
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.frames import VERSION
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import config, put, task
from support.store.hosting import hosting

HELLO = {"v": VERSION, "token": "operator"}


@pytest.fixture
async def path() -> AsyncIterator[str]:
    inner = MemoryStore()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path:
        yield path


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with aclosing(HostedStore(path, "operator")) as store:
        yield store


async def raw_line(path: str, *frames: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    for frame in frames:
        writer.write(frame)
    return reader, writer


# Nobody is in another's way


async def test_who_does_not_take_its_answers_does_not_hold_up_others(
    path: str, store: Store
) -> None:
    """A client asks for much and reads nothing; another commits and watches meanwhile."""
    await put(store, *(PutTask(task(str(n), description="x" * 5000)) for n in range(1, 101)))
    asks = [wire.pack({"op": "read", "team": "alpha", "id": n}) for n in range(1, 41)]
    watch = wire.pack({"op": "watch", "team": "alpha", "every_s": 0.001, "id": 99})
    _, stuck = await raw_line(path, wire.pack(HELLO), watch, *asks)
    begin = {"op": "begin", "team": "alpha", "turn": "t", "stamp": None, "seq": 0, "id": 100}
    stuck.write(wire.pack(begin))
    async with aclosing(store.watch("alpha")) as seqs:
        with anyio.fail_after(15):
            first = await anext(seqs)
            for n in range(20):
                committed = await put(store, PutTask(task(str(200 + n))))
                while await anext(seqs) < committed.seq:
                    pass
    assert committed.seq == first + 20
    stuck.transport.abort()
