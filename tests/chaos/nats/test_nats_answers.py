"""Answers that are lost, late or wrong: what was committed is stored once, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
from nats.aio.client import Client

from bullpen.errors import Refused, Unavailable
from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.protocol.changes import Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.nats import directory
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.log import log
from bullpen.store.nats.store import NatsStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team
from bullpen.testing.sample_records import config, message, put, task
from support.nats_chaos.proxy import Filter, Frame, Proxy, Session, proxy_to
from support.store.nats_parts import empty, endpoint_of, servers

SHORT = 6
NOT_LONG = 10_000
TRY_S = 0.5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits as long for an answer that was lost as he would for an election."""
    monkeypatch.setattr(log, "_TRY_S", TRY_S)
    monkeypatch.setattr(directory, "_TRY_S", TRY_S)


@pytest.fixture
async def direct(cluster: Cluster) -> AsyncIterator[NatsStore]:
    """A store of another host, which nothing disturbs, with team `alpha`."""
    store = NatsStore(endpoint_of(cluster), events_kept=SHORT)
    await empty(await store.link.client())
    await store.create("alpha", config(), actor=LEAD)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[Proxy]:
    async with proxy_to(cluster.nodes[0].ports.client) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy, direct: NatsStore) -> AsyncIterator[NatsStore]:
    """The store that is disturbed. It knows the team already."""
    store = NatsStore(Endpoint((proxy.url,)), events_kept=NOT_LONG)
    await store.read("alpha")
    yield store
    await store.aclose()


async def fresh_events(cluster: Cluster) -> list[Event]:
    """The log as somebody who knows nothing yet reads it."""
    store = NatsStore(endpoint_of(cluster))
    try:
        assert await store.checkup("alpha", fix=False) == []
        return await store.events("alpha")
    finally:
        await store.aclose()


def count(events: list[Event], op: str) -> int:
    return sum(event.op == op for event in events)


def first(number: int, wanted: Filter, then: Filter | None = None) -> Filter:
    """A filter for the first frames that concern it; `wanted` returns a frame that does not."""
    left = number

    async def decide(frame: Frame, session: Session) -> Frame | None:
        nonlocal left
        if left <= 0:
            return frame
        found = await wanted(frame, session)
        left -= found is not frame
        return found

    return decide


async def lose_acknowledgement(frame: Frame, session: Session) -> Frame | None:
    return None if frame.is_stored else frame


async def delay_acknowledgement(frame: Frame, session: Session) -> Frame | None:
    if not frame.is_stored:
        return frame
    await asyncio.sleep(1.5 * TRY_S)
    return Frame(frame.head, frame.body)


async def cut_instead(frame: Frame, session: Session) -> Frame | None:
    if frame.is_stored:
        session.close()
        return None
    return frame


@pytest.mark.parametrize("fault", [lose_acknowledgement, delay_acknowledgement, cut_instead])
async def test_a_commit_whose_answer_does_not_come_is_stored_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore, fault: Filter
) -> None:
    proxy.answers = first(1, fault)
    committed = await put(store, PutTask(task("1")), op="once")
    await put(store, PutTask(task("2")), op="after")
    events = await fresh_events(cluster)
    assert [event.seq for event in events if event.op == "once"] == [committed.seq]
    assert events[-1].op == "after"


@pytest.mark.parametrize("fault", [lose_acknowledgement, delay_acknowledgement, cut_instead])
async def test_commits_in_one_message_whose_answer_does_not_come_are_stored_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore, fault: Filter
) -> None:
    # The first one makes the others wait, so that they share a message.
    proxy.answers = first(1, lambda frame, session: _after_one(frame, session, fault, seen))
    seen: list[Frame] = []
    changes = [PutTask(task(str(number))) for number in range(1, 9)]
    committed = await asyncio.gather(*(put(store, change, op="once") for change in changes))
    events = await fresh_events(cluster)
    there = [event.seq for event in events if event.op == "once"]
    assert there == [each.seq for each in committed]


async def _after_one(
    frame: Frame, session: Session, fault: Filter, seen: list[Frame]
) -> Frame | None:
    """Let the first acknowledgement through, and what a fault does to the next one."""
    if frame.is_stored and not seen:
        seen.append(frame)
        return frame
    return await fault(frame, session)


async def test_a_message_whose_answer_is_lost_is_delivered_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore
) -> None:
    proxy.answers = first(2, lose_acknowledgement)
    stored = await store.append("alpha", "ann", message("m1"), actor=LEAD, fresh=True)
    assert not stored.duplicate
    assert count(await fresh_events(cluster), "message") == 1


async def test_a_commit_is_stored_once_though_others_made_a_snapshot_before_its_answer_came(
    cluster: Cluster, proxy: Proxy, store: NatsStore, direct: NatsStore
) -> None:
    async def fall_behind(frame: Frame, session: Session) -> Frame | None:
        if not frame.is_stored:
            return frame
        for number in range(2 * SHORT):
            await put(direct, PutTask(task(str(10 + number))), op="other")
        return None

    proxy.answers = first(1, fall_behind)
    committed = await put(store, PutTask(task("1")), op="once")
    events = await fresh_events(cluster)
    assert [event.seq for event in events if event.op == "once"] == [committed.seq]
    assert count(events, "other") == 2 * SHORT


async def test_a_commit_that_was_stored_and_called_an_error_is_stored_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore, direct: NatsStore
) -> None:
    async def call_it_an_error(frame: Frame, session: Session) -> Frame | None:
        if not frame.is_stored:
            return frame
        for number in range(2 * SHORT):
            await put(direct, PutTask(task(str(10 + number))), op="other")
        error = {"code": 503, "err_code": 10077, "description": "store failed"}
        return _with_body(frame, b'{"error":%s}' % str(error).replace("'", '"').encode())

    proxy.answers = first(1, call_it_an_error)
    await put(store, PutTask(task("1")), op="once")
    assert count(await fresh_events(cluster), "once") == 1


def _with_body(frame: Frame, body: bytes) -> Frame:
    words = frame.head.split()
    return Frame(b" ".join([*words[:-1], str(len(body)).encode()]) + b"\r\n", body + b"\r\n")


WRONG_LAST = {"error": {"code": 400, "err_code": 10164, "description": "wrong last sequence"}}


async def deny_before(frame: Frame, session: Session) -> Frame | None:
    if not frame.is_append:
        return frame
    session.answer(frame, WRONG_LAST)
    return None


async def deny_after(frame: Frame, session: Session) -> Frame | None:
    if not frame.is_stored:
        return frame
    return _with_body(frame, str(WRONG_LAST).replace("'", '"').encode())


async def test_a_conflict_that_is_none_does_not_lose_the_commit(
    cluster: Cluster, proxy: Proxy, store: NatsStore
) -> None:
    proxy.asks = first(2, deny_before)
    await put(store, PutTask(task("1")), op="once")
    assert count(await fresh_events(cluster), "once") == 1


async def test_a_commit_that_was_stored_and_called_a_conflict_is_stored_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore
) -> None:
    proxy.answers = first(1, deny_after)
    await put(store, PutTask(task("1")), op="once")
    assert count(await fresh_events(cluster), "once") == 1


async def test_a_replica_that_is_behind_is_asked_again(
    proxy: Proxy, store: NatsStore, direct: NatsStore
) -> None:
    for number in range(3):
        await put(direct, PutTask(task(str(number + 1))))

    async def hold_back(frame: Frame, session: Session) -> Frame | None:
        return None if frame.is_row else frame

    proxy.answers = first(8, hold_back)
    state = await store.read("alpha")
    assert state.problems == ()
    assert list(state.tasks) == ["1", "2", "3"]


async def test_a_message_that_is_lost_among_many_is_read_again(
    proxy: Proxy, store: NatsStore, direct: NatsStore
) -> None:
    for number in range(3):
        await put(direct, PutTask(task(str(number + 1))))
    proxy.answers = _lose_row(2)
    state = await store.read("alpha")
    assert state.problems == ()
    assert list(state.tasks) == ["1", "2", "3"]


def _lose_row(number: int) -> Filter:
    """Lose the nth stored message that is read."""
    rows = 0

    async def decide(frame: Frame, session: Session) -> Frame | None:
        nonlocal rows
        rows += frame.is_row
        return None if frame.is_row and rows == number else frame

    return decide


async def test_an_event_after_the_snapshot_of_another_host_follows_it(
    cluster: Cluster, store: NatsStore, direct: NatsStore
) -> None:
    await put(store, PutTask(task("1")))
    await direct.read("alpha")
    known = direct._logs["alpha"]
    async with known.turn() as deadline:
        await known.shorten(deadline)
    # It knows all events, and not that a snapshot stands in their place now.
    await put(store, PutTask(task("2")), op="after")
    assert (await fresh_events(cluster))[-1].op == "after"


@pytest.mark.parametrize("arrive", [0, 1])
async def test_whatever_part_of_a_shortening_arrives_no_event_is_lost(
    cluster: Cluster, proxy: Proxy, store: NatsStore, arrive: int
) -> None:
    for number in range(3):
        await put(store, PutTask(task(str(number + 1))))
    left = arrive

    async def die(frame: Frame, session: Session) -> Frame | None:
        nonlocal left
        if not frame.is_append:
            return frame
        left -= 1
        return frame if left >= 0 else None

    proxy.asks = die
    known = store._logs["alpha"]
    async with known.turn() as deadline:
        await known.shorten(deadline)
    events = await fresh_events(cluster)
    assert [event.seq for event in events] == [1, 2, 3, 4]


async def test_a_refusal_is_about_how_the_team_is_now(store: NatsStore, direct: NatsStore) -> None:
    here, there = Team(store, "alpha"), Team(direct, "alpha")
    await there.tasks.add_many([Draft(subject="a task")], by=LEAD)
    await there.tasks.claim("1", by="ann")
    await store.read("alpha")
    await there.tasks.release("1", by="ann")
    assert (await here.tasks.claim("1", by="bob")).owner == "bob"
    with pytest.raises(Refused):
        await there.tasks.claim("1", by="ann")


async def test_a_leader_that_can_store_nothing_any_more_is_not_believed(
    proxy: Proxy, store: NatsStore, direct: NatsStore
) -> None:
    """So is one that was cut off from the others: it says what it knew, and stores nothing."""
    known: list[bytes] = []

    async def say_what_it_knew(frame: Frame, session: Session) -> Frame | None:
        if b"stream_msg_get_response" not in frame.body:
            return frame
        known.append(frame.body.removesuffix(b"\r\n"))
        return _with_body(frame, known[0])

    async def store_nothing(frame: Frame, session: Session) -> Frame | None:
        return None if frame.is_append else frame

    proxy.answers = say_what_it_knew
    await put(store, PutTask(task("1")))
    assert (await store.read("alpha")).problems == ()
    await put(direct, PutTask(task("2")))
    proxy.asks = store_nothing
    store.link._led.clear()
    state = await store.read("alpha")
    assert list(state.tasks) == ["1"]
    assert "s ago" in state.problems[0].why


async def test_a_commit_without_any_answer_is_not_called_undone(
    cluster: Cluster, proxy: Proxy, direct: NatsStore
) -> None:
    store = NatsStore(Endpoint((proxy.url,)), limits=StoreLimits(lock_wait_s=1.5))
    try:
        await store.read("alpha")
        busy = {"error": {"code": 503, "err_code": 10008, "description": "not available"}}
        asked = 0

        async def lose_then_refuse(frame: Frame, session: Session) -> Frame | None:
            nonlocal asked
            if not frame.is_append:
                return frame
            asked += 1
            if asked == 1:
                return frame
            session.answer(frame, busy)
            return None

        proxy.asks = lose_then_refuse
        proxy.answers = first(1, lose_acknowledgement)
        with pytest.raises(Unavailable) as caught:
            await put(store, PutTask(task("1")), op="once")
        assert count(await fresh_events(cluster), "once") == 1
        assert "unknown whether" in caught.value.message
    finally:
        await store.aclose()


async def test_a_team_whose_making_got_no_answers_is_there_once(
    cluster: Cluster, proxy: Proxy, store: NatsStore
) -> None:
    lost = 0

    async def lose_some(frame: Frame, session: Session) -> Frame | None:
        nonlocal lost
        wanted = b"KV_TEAMS" in frame.body or b"$KV.TEAMS" in frame.body
        if frame.verb != "MSG" or lost >= 3 or not wanted:
            return frame
        lost += 1
        return None

    proxy.answers = lose_some
    await store.create("beta", config("beta"), actor=LEAD)
    assert await store.teams() == ["alpha", "beta"]
    assert lost == 3


async def test_a_team_whose_log_was_lost_is_not_taken_for_deleted(
    cluster: Cluster, direct: NatsStore
) -> None:
    client = await direct.link.client()
    await api(client, f"STREAM.PURGE.{direct._logs['alpha'].address.stream}", None, timeout_s=5)
    for _ in range(2):
        with pytest.raises(Unavailable, match="was lost"):
            await direct.read("alpha")
    assert await direct.teams() == ["alpha"]
    await direct.delete("alpha", actor=LEAD)
    assert await direct.teams() == []


async def test_a_mailbox_is_read_whole_though_some_of_it_is_archived_meanwhile(
    cluster: Cluster, proxy: Proxy, direct: NatsStore
) -> None:
    limits = StoreLimits(seen_kept=1)
    store = NatsStore(Endpoint((proxy.url,)), limits=limits, events_kept=NOT_LONG)
    try:
        for key in ("m1", "m2", "m3"):
            await direct.append("alpha", "ann", message(key), actor=LEAD)
        known = direct._logs["alpha"]
        async with known.turn() as deadline:
            await known.shorten(deadline)
        await store.read("alpha")
        # The texts of the first three are in the history, that of the last is not.
        await store.append("alpha", "ann", message("m4"), actor=LEAD)

        archiving: list[asyncio.Task[int]] = []

        async def archive(frame: Frame, session: Session) -> Frame | None:
            if not (frame.is_row and known.address.history.encode() in frame.body):
                return frame
            proxy.heal()
            ids = ["m1", "m2", "m3", "m4"]
            marking = store.acknowledge("alpha", "ann", ids, "seen", actor="ann")
            archiving.append(asyncio.create_task(marking))
            return None

        proxy.answers = archive
        box = await store.mailbox("alpha", "ann")
        assert [entry.id for entry in box.entries] == ["m1", "m2", "m3", "m4"]
        assert [await each for each in archiving] == [4]
        assert len((await store.mailbox("alpha", "ann")).entries) == 1
    finally:
        await store.aclose()


async def _is_closed(client: Client) -> bool:
    return client.is_closed


async def test_a_connection_that_the_library_gave_up_is_made_again(
    cluster: Cluster, proxy: Proxy, store: NatsStore
) -> None:
    (session,) = proxy.sessions
    session.tell_client(b"-ERR 'Maximum Connections Exceeded'\r\n")
    client = await store.link.client()
    assert await until(partial(_is_closed, client), 10)
    await put(store, PutTask(task("1")), op="once")
    assert count(await fresh_events(cluster), "once") == 1


@pytest.mark.parametrize("moments", range(6))
async def test_a_store_can_be_closed_in_any_moment_of_its_search_for_a_server(
    store: NatsStore, moments: int
) -> None:
    await (await store.link.client()).force_reconnect()
    for _ in range(moments):
        await asyncio.sleep(0)
    await store.aclose()
