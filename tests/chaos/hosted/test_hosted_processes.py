"""Many client processes and one host process: nothing twice, nothing lost, nobody held up."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.hosted.client import HostedStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team
from bullpen.testing.sample_records import (
    always,
    assert_replay_is_live,
    config,
    member,
    message,
    put,
    task,
)

from .processes import (
    Host,
    add,
    claim_all,
    count_and_send,
    finish,
    host,
    sit_in_its_turn,
    start,
)

pytestmark = pytest.mark.no_loss

WORKERS, TASKS = 8, 200


@pytest.fixture
def running() -> Iterator[Host]:
    with host(lease_s=1.0) as running:
        yield running


@pytest.fixture
async def store(running: Host) -> AsyncIterator[HostedStore]:
    async with aclosing(HostedStore(running.path, "operator")) as store:
        # The first process takes a while where nothing is loaded yet.
        with anyio.fail_after(30):
            while True:
                try:
                    await store.teams()
                    break
                except Unavailable:
                    continue
        await store.create("alpha", config(), actor=LEAD)
        yield store


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    with anyio.fail_after(30):
        while not condition():  # noqa: ASYNC110 - no event crosses processes
            await anyio.sleep(0.01)


async def test_of_many_processes_exactly_one_claims_each_task(
    running: Host, store: HostedStore, tmp_path: Path
) -> None:
    for number in range(WORKERS):
        await put(store, PutMember(member(f"w{number}")))
    drafts = [Draft(f"task {n}") for n in range(TASKS)]
    await Team(store, "alpha").tasks.add_many(drafts, by=LEAD)
    notes = [tmp_path / f"{number}.json" for number in range(WORKERS)]
    go = tmp_path / "go"
    crew = [start(claim_all, running.path, n, str(note), str(go)) for n, note in enumerate(notes)]
    await until(lambda: len(list(tmp_path.glob("*.ready"))) == WORKERS)
    go.touch()
    await anyio.to_thread.run_sync(finish, crew)

    claimed = [json.loads(note.read_text(encoding="utf-8")) for note in notes]
    claims = Counter(task_id for each in claimed for task_id in each)
    assert len(claims) == TASKS
    assert set(claims.values()) == {1}
    assert all(claimed), "somebody got no turn at all"
    events = await store.events("alpha")
    assert [event.op for event in events].count("task.claim") == TASKS
    await assert_replay_is_live(store)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_client_that_dies_or_stops_in_its_turn_does_not_hold_up_others(
    running: Host, store: HostedStore, tmp_path: Path, how: signal.Signals
) -> None:
    ready = tmp_path / "ready"
    sitting = start(sit_in_its_turn, running.path, str(ready))
    await until(ready.exists)
    assert sitting.pid is not None
    os.kill(sitting.pid, how)
    with anyio.fail_after(60):
        await put(store, PutTask(task("1")))
    assert how is signal.SIGKILL or sitting.is_alive(), "it still sits in its turn"
    sitting.kill()
    sitting.join(20)


@pytest.mark.parametrize("when", ["die before", "die after"])
async def test_a_commit_in_which_the_host_dies_happens_once(
    running: Host, store: HostedStore, when: str
) -> None:
    await put(store, PutTask(task("1")))
    async with anyio.create_task_group() as group:
        group.start_soon(_start_again, running)
        committed = await store.commit("alpha", add, actor="ann", op=when)
    assert committed.seq == 3
    assert (await store.read("alpha")).tasks["1"].metadata == {"count": 1}
    events = await store.events("alpha")
    assert [(event.seq, event.op) for event in events[2:]] == [(3, when)]
    assert events[2].changes == committed.changes
    await assert_replay_is_live(store)


async def test_a_commit_that_happened_is_found_though_a_message_of_it_was_there_before(
    running: Host, store: HostedStore
) -> None:
    await store.append("alpha", "ann", message("m1"), actor=LEAD)
    changes = PutTask(task("1")), Deliver("ann", message("m1")), Deliver("ann", message("m2"))
    async with anyio.create_task_group() as group:
        group.start_soon(_start_again, running)
        committed = await store.commit("alpha", always(*changes), actor="ann", op="die after")
    assert (committed.seq, committed.changes) == (3, (changes[0], changes[2]))
    assert len(await store.events("alpha")) == 3


@pytest.mark.parametrize("when", ["die before", "die after"])
async def test_a_message_in_which_the_host_dies_is_stored_once(
    running: Host, store: HostedStore, when: str
) -> None:
    sent = message("m1", text=when)
    async with anyio.create_task_group() as group:
        group.start_soon(_start_again, running)
        stored = await store.append("alpha", "ann", sent, actor=LEAD, fresh=True)
    assert not stored.duplicate
    assert [entry.id for entry in (await store.mailbox("alpha", "ann")).entries] == ["m1"]
    assert [event.op for event in await store.events("alpha")] == ["team.create", "message"]


async def test_when_the_host_stays_dead_nobody_claims_to_know_what_became_of_a_commit(
    running: Host, store: HostedStore
) -> None:
    await put(store, PutTask(task("1")))
    impatient = StoreLimits(lock_wait_s=0.5)
    async with aclosing(HostedStore(running.path, "operator", limits=impatient)) as other:
        await other.teams()
        with pytest.raises(Unavailable, match="does not know whether 'die after' was done"):
            await other.commit("alpha", add, actor="ann", op="die after")
        with pytest.raises(Unavailable, match="does not answer"):
            await other.commit("alpha", add, actor="ann", op="count")


async def test_a_watch_goes_on_after_the_host_was_started_again(
    running: Host, store: HostedStore
) -> None:
    async with aclosing(store.watch("alpha")) as seqs:
        with anyio.fail_after(60):
            assert await anext(seqs) == 1
            await anyio.to_thread.run_sync(running.kill)
            running.start()
            committed = await put(store, PutTask(task("1")))
            while await anext(seqs) < committed.seq:
                pass


async def test_hosts_that_are_killed_again_and_again_lose_and_repeat_nothing(
    running: Host, store: HostedStore
) -> None:
    await put(store, PutTask(task("1")))
    crew = [start(count_and_send, running.path, number, 30) for number in range(4)]
    for _ in range(4):
        seen = (await store.read("alpha")).seq
        with anyio.fail_after(60):
            async with aclosing(store.watch("alpha")) as seqs:
                while await anext(seqs) < seen + 15:
                    pass
        await anyio.to_thread.run_sync(running.kill)
        running.start()
    await anyio.to_thread.run_sync(finish, crew)
    assert (await store.read("alpha")).tasks["1"].metadata == {"count": 120}
    ids = [entry.id for entry in (await store.mailbox("alpha", "ann")).entries]
    assert Counter(ids) == Counter(f"{n}-{index}" for n in range(4) for index in range(30))
    events = await store.events("alpha")
    assert Counter(event.op for event in events)["count"] == 120
    # A message of a host that was killed before it logged it is logged as observed.
    logged = [change for event in events for change in event.changes]
    assert Counter(ids) == Counter(each.message.id for each in logged if isinstance(each, Deliver))
    await assert_replay_is_live(store)


async def _start_again(running: Host) -> None:
    await until(lambda: running.is_dead)
    running.start()
