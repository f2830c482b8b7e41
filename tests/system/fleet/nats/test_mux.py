"""Questions to the servers, and messages from them, without the queues of the library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.mux import ask, listen
from support.store.nats_parts import endpoint_of, servers

WITHIN_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    link = NatsConnection(endpoint_of(cluster))
    yield await link.client()
    await link.aclose()


async def test_many_questions_at_once_get_each_its_own_answer(client: Client) -> None:
    async def answer(message: Msg) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe("echo", cb=answer)
    found: dict[int, bytes] = {}

    async def one(number: int) -> None:
        text = str(number).encode()
        found[number] = (await ask(client, "echo", text, headers=None, timeout_s=WITHIN_S)).data

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert found == {number: str(number).encode() for number in range(100)}


async def test_where_nobody_listens_that_is_said_instead_of_waited_for(client: Client) -> None:
    with pytest.raises(nats_errors.NoRespondersError):
        await ask(client, "nobody", b"", headers=None, timeout_s=WITHIN_S)


async def test_who_gets_no_answer_waits_no_longer_than_he_said(client: Client) -> None:
    await client.subscribe("silent")
    with pytest.raises(TimeoutError):
        await ask(client, "silent", b"", headers=None, timeout_s=0.05)


async def test_a_message_that_cannot_be_taken_keeps_no_other_back(client: Client) -> None:
    taken: list[bytes] = []

    def take(message: Msg) -> None:
        if message.data == b"1":
            raise ValueError("not this one")
        taken.append(message.data)

    await listen(client, "numbers", take)
    for number in range(3):
        await client.publish("numbers", str(number).encode())

    async def both() -> bool:
        return taken == [b"0", b"2"]

    assert await until(both, WITHIN_S)
