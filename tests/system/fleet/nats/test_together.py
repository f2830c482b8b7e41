"""Commits of one host that wait for each other are stored together: in order, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

import anyio
import pytest

from bullpen.errors import Refused
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from bullpen.testing.sample_records import assert_replay_is_live, message
from support.crews import new_team
from support.store.nats_parts import empty, endpoint_of, servers

COUNT = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[NatsStore]:
    store = NatsStore(endpoint_of(cluster))
    await empty(await store.link.client())
    yield store
    await store.aclose()


@pytest.fixture
async def team(store: NatsStore) -> Team:
    return await new_team(Teams(store), "alpha")


async def messages(store: NatsStore) -> list[bytes]:
    """The messages of the log, as they are stored."""
    address = store._logs["alpha"].address
    reader = await store.link.reader()
    return [row.data for row in await reader.rows(address.stream, address.log, 1, timeout_s=5)]


async def test_commits_that_wait_share_a_message_and_each_gets_its_own_answer(
    store: NatsStore, team: Team
) -> None:
    before = len(await messages(store))
    adding = [team.tasks.add(f"T{number}", by=LEAD) for number in range(COUNT)]
    added = await asyncio.gather(*adding)
    # The first finds nobody at work; all others wait for it.
    first, rest = (await messages(store))[before:]
    assert (len(first.split(b"\n")), len(rest.split(b"\n"))) == (1, COUNT - 1)
    assert [task.subject for task in added] == [f"T{number}" for number in range(COUNT)]
    assert len({task.id for task in added}) == COUNT
    events = await store.events("alpha")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    await assert_replay_is_live(store)


async def test_others_read_them_as_single_events(
    cluster: Cluster, store: NatsStore, team: Team
) -> None:
    await asyncio.gather(*(team.tasks.add(f"T{number}", by=LEAD) for number in range(COUNT)))
    fresh = NatsStore(endpoint_of(cluster))
    try:
        assert await fresh.events("alpha") == await store.events("alpha")
        assert (await fresh.read("alpha")).tasks == (await store.read("alpha")).tasks
    finally:
        await fresh.aclose()


async def test_of_those_who_want_the_same_task_in_one_message_one_gets_it(
    store: NatsStore, team: Team
) -> None:
    for number in range(8):
        await team.roster.join(f"w{number}", by=LEAD)
    task = await team.tasks.add("Wanted", by=LEAD)

    async def claim(number: int) -> bool:
        try:
            await team.tasks.claim(task.id, by=f"w{number}")
        except Refused as refused:
            assert refused.reason == "already_claimed"
            return False
        return True

    other = team.tasks.add("Makes them wait", by=LEAD)
    _, *got = await asyncio.gather(other, *(claim(number) for number in range(8)))
    assert got == [True] + [False] * 7
    assert [event.op for event in await store.events("alpha")].count("task.claim") == 1


async def test_whoever_gives_up_does_not_stop_the_others(store: NatsStore, team: Team) -> None:
    tasks = [asyncio.create_task(team.tasks.add(f"T{number}", by=LEAD)) for number in range(COUNT)]
    await asyncio.sleep(0)
    given_up = {0, 1, 7, COUNT - 1}
    for number in given_up:
        tasks[number].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    for number, result in enumerate(found):
        assert isinstance(result, asyncio.CancelledError) == (number in given_up)
    there = {task.subject for task in (await team.tasks.list()).tasks}
    assert there >= {f"T{number}" for number in range(COUNT) if number not in given_up}
    # Nothing is blocked for those who come later.
    with anyio.fail_after(10):
        await team.tasks.add("Later", by=LEAD)
    await assert_replay_is_live(store)


async def test_what_is_too_long_for_one_message_is_stored_in_several(
    store: NatsStore, team: Team
) -> None:
    text = "x" * (3 * 1024 * 1024)
    send = partial(store.append, "alpha", "ann", actor=LEAD, fresh=True)
    await asyncio.gather(*(send(message(f"m{number}", text=text)) for number in range(5)))
    assert len((await store.mailbox("alpha", "ann")).entries) == 5
    await assert_replay_is_live(store)


async def test_a_team_that_is_deleted_meanwhile_is_gone_for_all_of_them(
    cluster: Cluster, store: NatsStore, team: Team
) -> None:
    other = NatsStore(endpoint_of(cluster))
    await other.delete("alpha", actor=LEAD)
    await other.aclose()
    adding = [team.tasks.add(f"T{number}", by=LEAD) for number in range(5)]
    found = await asyncio.gather(*adding, return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["NotFound"] * 5, found
