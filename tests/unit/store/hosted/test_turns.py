"""Deciding through the socket: one after another, on what is true, with little moved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NoReturn, cast

import anyio
import pytest

from bullpen.errors import Conflict, Refused, Unavailable, Unreadable
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Committed, Decide, Store, StoreLimits, View
from bullpen.store.files.store import FileStore
from bullpen.store.hosted import frames, team_session
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.frames import VERSION
from bullpen.store.hosted.turns import Turns
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import (
    always,
    assert_replay_is_live,
    config,
    member,
    message,
    next_task_id,
    put,
    task,
)
from support.store.hosting import hosting


@pytest.fixture
async def inner() -> Store:
    inner = MemoryStore()
    await inner.create("alpha", config(), actor=LEAD)
    return inner


@pytest.fixture
async def store(inner: Store) -> AsyncIterator[Store]:
    async with hosting(inner, lease_s=60) as path, aclosing(HostedStore(path, "operator")) as store:
        yield store


# Turns


async def test_turns_are_taken_in_the_order_in_which_they_were_asked_for() -> None:
    turns, order = Turns(lease_s=10), list[str]()

    async def take(name: str) -> None:
        await turns.take(name)
        order.append(name)
        turns.give_back(name)

    await turns.take("first")
    async with anyio.create_task_group() as group:
        for name in "abcde":
            group.start_soon(take, name)
            await anyio.wait_all_tasks_blocked()
        turns.give_back("c")
        turns.give_back("first")
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert order == ["a", "b", "d", "e"]
    assert turns.idle


async def test_who_stalls_loses_its_turn_and_who_is_served_does_not() -> None:
    turns = Turns(lease_s=0.05)
    await turns.take("stalls")
    with anyio.fail_after(10):
        await turns.take("next")
    turns.keep("next")
    with anyio.move_on_after(0.2) as waited:
        await turns.take("third")
    assert waited.cancelled_caught


async def test_a_late_word_of_who_lost_its_turn_does_not_end_the_turn_of_another() -> None:
    turns = Turns(lease_s=0.05)
    await turns.take("late")
    with anyio.fail_after(10):
        await turns.take("next")
    turns.keep("next")
    turns.give_back("late")
    turns.renew("late")
    assert not turns.idle


# Deciding on what is true


async def test_a_decision_is_made_again_when_the_team_changed_behind_the_host(
    inner: Store, store: Store
) -> None:
    await put(store, PutTask(task("1")))
    await inner.commit("alpha", lambda view: [PutTask(task("1", owner="bob"))], actor="x", op="x")
    owners: list[str | None] = []

    def claim(view: View) -> Sequence[Change]:
        found = view.task("1")
        assert found is not None
        owners.append(found.owner)
        return [] if found.owner else [PutTask(found.evolve(owner="ann"))]

    assert (await store.commit("alpha", claim, actor="ann", op="claim")).changes == ()
    assert owners == [None, "bob"]


async def test_a_refusal_counts_only_if_it_was_made_on_the_newest_state(
    inner: Store, store: Store
) -> None:
    await put(store, PutTask(task("1", owner="bob")))
    await put(inner, PutTask(task("1")))

    def claim(view: View) -> Sequence[Change]:
        found = view.tasks()["1"]
        if found.owner:
            raise Refused("It is taken.", reason="already_claimed")
        return [PutTask(found.evolve(owner="ann"))]

    await store.commit("alpha", claim, actor="ann", op="claim")
    assert (await inner.read("alpha")).tasks["1"].owner == "ann"


async def test_a_new_task_never_takes_an_id_that_was_given_behind_the_host(
    inner: Store, store: Store
) -> None:
    await put(store, PutTask(task("1")))
    await put(inner, PutTask(task("7")))
    assert await next_task_id(store) == 8


async def test_a_change_that_nobody_looked_at_does_not_repeat_a_decision(
    inner: Store, store: Store
) -> None:
    await put(store, PutTask(task("1")), PutTask(task("2")))
    await put(inner, PutTask(task("2", owner="bob")))
    await inner.append("alpha", "bob", message("m1"), actor=LEAD)
    runs: list[int] = []

    def decide(view: View) -> Sequence[Change]:
        found = view.task("1")
        assert found is not None
        runs.append(1)
        return [PutTask(found.evolve(owner="ann"))]

    await store.commit("alpha", decide, actor="ann", op="claim")
    assert runs == [1]
    state = await store.read("alpha")
    assert [state.tasks[key].owner for key in "12"] == ["ann", "bob"]

    def look(view: View) -> Sequence[Change]:
        assert view.tasks() == state.tasks
        return ()

    await store.commit("alpha", look, actor="ann", op="look")


async def test_a_later_team_of_the_same_name_is_not_taken_for_the_old_one(
    inner: Store, store: Store
) -> None:
    await put(store, PutTask(task("1")))
    await inner.delete("alpha", actor=LEAD)
    await inner.create("alpha", config(createdAt=2), actor=LEAD)
    await put(inner, PutTask(task("5")))
    assert await next_task_id(store) == 6
    await put(store, PutTask(task("6")))
    await assert_replay_is_live(store)


class _Restless(MemoryStore):
    """Somebody else is always faster."""

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        if op == "mine":
            count = (await self.read(team)).seq
            await super().commit(
                team, lambda view: [PutMember(member(f"m{count}"))], actor="x", op="x"
            )
        return await super().commit(team, decide, actor=actor, op=op)


async def test_a_team_that_never_holds_still_is_a_conflict() -> None:
    inner = _Restless()
    await inner.create("alpha", config(), actor=LEAD)
    limits = StoreLimits(attempts_max=5)
    async with (
        hosting(inner) as path,
        aclosing(HostedStore(path, "operator", limits=limits)) as store,
    ):
        with pytest.raises(Conflict, match="every attempt"):
            await store.commit("alpha", lambda view: [PutTask(task("1"))], actor="x", op="mine")


async def test_a_task_that_cannot_be_read_is_unreadable_not_absent(tmp_path: Path) -> None:
    async with (
        aclosing(FileStore(tmp_path, fsync=False)) as files,
        hosting(files) as path,
        aclosing(HostedStore(path, "operator")) as store,
    ):
        await store.create("alpha", config(), actor=LEAD)
        await put(store, PutTask(task("1")), PutTask(task("2")))
        (tmp_path / "tasks" / "alpha" / "1.json").write_text("{", encoding="utf-8")

        def claim(view: View) -> Sequence[Change]:
            if view.task("1") is None:
                raise Refused("There is none.", reason="task_not_found")
            return [PutTask(task("1", owner="ann"))]

        with pytest.raises(Unreadable, match=r"1\.json"):
            await store.commit("alpha", claim, actor="ann", op="claim")


async def test_what_another_program_writes_into_the_files_is_decided_on(tmp_path: Path) -> None:
    async with (
        aclosing(FileStore(tmp_path, fsync=False)) as files,
        hosting(files) as path,
        aclosing(HostedStore(path, "operator")) as store,
    ):
        await store.create("alpha", config(), actor=LEAD)
        await put(store, PutTask(task("1")))
        theirs = task("1", owner="claude")
        (tmp_path / "tasks" / "alpha" / "1.json").write_bytes(theirs.dump())
        seen: list[Any] = []

        def look(view: View) -> Sequence[Change]:
            seen[:] = [view.task("1")]
            return ()

        await store.commit("alpha", look, actor="ann", op="look")
        assert seen == [theirs]
        await put(store, PutTask(task("2")))
        await assert_replay_is_live(store)


# In one another's way


async def test_who_decides_for_too_long_does_not_hold_up_others(inner: Store) -> None:
    """It sits in its turn in another thread; its decision still counts, made anew."""
    seen: list[int] = []
    begun, others_went_on = threading.Event(), threading.Event()

    def next_task(view: View) -> Sequence[Change]:
        return [PutTask(task(str(view.next_task_id)))]

    def stall(path: str) -> None:
        def decide(view: View) -> Sequence[Change]:
            seen.append(len(view.tasks()))
            begun.set()
            assert others_went_on.wait(20)
            return next_task(view)

        async def decide_slowly() -> None:
            async with aclosing(HostedStore(path, "operator")) as slow:
                await slow.commit("alpha", decide, actor="slow", op="slow")

        asyncio.run(decide_slowly())

    async with (
        hosting(inner, lease_s=0.1) as path,
        aclosing(HostedStore(path, "operator")) as quick,
        anyio.create_task_group() as group,
    ):
        group.start_soon(anyio.to_thread.run_sync, stall, path)
        await anyio.to_thread.run_sync(begun.wait, 20)
        with anyio.fail_after(15):
            await quick.commit("alpha", next_task, actor="quick", op="quick")
        others_went_on.set()
    assert seen == [0, 1]
    assert list((await inner.read("alpha")).tasks) == ["1", "2"]


async def test_who_waits_too_long_for_its_turn_is_told(inner: Store) -> None:
    limits = StoreLimits(lock_wait_s=0.1)
    begin = {"op": "begin", "team": "alpha", "turn": "t", "stamp": None, "seq": 0, "id": 1}
    async with (
        hosting(inner, limits=limits) as path,
        aclosing(HostedStore(path, "operator", limits=limits)) as store,
    ):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(frames.pack({"v": VERSION, "token": "operator"}) + frames.pack(begin))
        await frames.receive(reader)
        await frames.receive(reader)
        with pytest.raises(Unavailable, match="busy"):
            await put(store, PutTask(task("1")))
        writer.close()


async def test_a_turn_is_over_when_its_client_is_cancelled_or_fails(store: Store) -> None:
    def interrupted(view: View) -> NoReturn:
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            await store.commit("alpha", interrupted, actor="x", op="x")
    with anyio.fail_after(20):
        await put(store, PutTask(task("1")))


async def test_a_turn_is_over_when_its_client_hangs_up(inner: Store) -> None:
    begin = {"op": "begin", "team": "alpha", "turn": "t", "stamp": None, "seq": 0, "id": 1}
    async with (
        hosting(inner, lease_s=60) as path,
        aclosing(HostedStore(path, "operator")) as store,
    ):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(frames.pack({"v": VERSION, "token": "operator"}) + frames.pack(begin))
        await frames.receive(reader)
        await frames.receive(reader)
        writer.close()
        with anyio.fail_after(15):
            await put(store, PutTask(task("1")))


class _Slow(MemoryStore):
    """Waits in every commit that is marked so, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = anyio.Event(), anyio.Event()
        self.commits = 0

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        if op == "slow":
            self.commits += 1
            self.begun.set()
            await self.go_on.wait()
        return await super().commit(team, decide, actor=actor, op=op)


async def test_a_commit_goes_on_though_the_connection_breaks_and_is_not_repeated() -> None:
    inner = _Slow()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path, aclosing(HostedStore(path, "operator")) as store:
        found: list[Committed] = []

        async def commit() -> None:
            changes = always(PutTask(task("1")))
            found.append(await store.commit("alpha", changes, actor="ann", op="slow"))

        async with anyio.create_task_group() as group:
            group.start_soon(commit)
            await inner.begun.wait()
            assert store._line is not None
            store._line._writer.transport.abort()
            # A call that is answered shows that the connection is a new one.
            assert await store.teams() == ["alpha"]
            inner.go_on.set()
    assert [committed.seq for committed in found] == [2]
    assert inner.commits == 1


# What moves


async def test_a_commit_on_a_big_team_moves_what_changed_only(
    inner: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(inner, *(PutTask(task(str(n), description="x" * 300)) for n in range(1, 1001)))
    moved: list[int] = []
    pack = frames.pack

    def counted(value: Any, *, frames_max: int = 1) -> bytes:
        packed = pack(value, frames_max=frames_max)
        moved.append(len(packed))
        return packed

    async with (
        hosting(inner) as path,
        aclosing(HostedStore(path, "operator")) as one,
        aclosing(HostedStore(path, "operator")) as other,
    ):
        for store in (one, other):
            await put(store, PutTask(task("1")))
        monkeypatch.setattr(frames, "pack", counted)

        def claim(view: View) -> Sequence[Change]:
            free = next(each for each in view.tasks().values() if each.owner is None)
            return [PutTask(free.evolve(owner="ann"))]

        for store in (one, other) * 5:
            await store.commit("alpha", claim, actor="ann", op="claim")
        assert sum(moved) / 10 < 4_000
        owned = [each for each in (await one.read("alpha")).tasks.values() if each.owner]
        assert len(owned) == 10


async def test_a_client_that_was_away_for_long_gets_the_whole_team(
    inner: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_session, "_STEPS_KEPT", 3)
    async with (
        hosting(inner) as path,
        aclosing(HostedStore(path, "operator")) as one,
        aclosing(HostedStore(path, "operator")) as away,
    ):
        await put(away, PutTask(task("1")))
        for n in range(2, 12):
            await put(one, PutTask(task(str(n))), Deliver("ann", message(f"m{n}")))
        seen: list[str] = []

        def look(view: View) -> Sequence[Change]:
            seen[:] = view.tasks()
            return ()

        await away.commit("alpha", look, actor="x", op="x")
    assert seen == [str(n) for n in range(1, 12)]


async def test_a_view_is_in_order_after_any_changes(inner: Store, store: Store) -> None:
    seen: list[str] = []

    def look(view: View) -> Sequence[Change]:
        seen[:] = view.tasks()
        return ()

    for task_id in ("10", "9", "x", "2"):
        await put(store, PutTask(task(task_id)))
        await store.commit("alpha", look, actor="x", op="x")
    assert seen == ["2", "9", "10", "x"]


class _Numbered:
    """A view that knows which moment it shows, and must not be looked at for that."""

    def __init__(self, view: View, seq: int) -> None:
        self.team, self.seq = view.team, seq


class _Numbering(MemoryStore):
    """A store whose views know their number."""

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        seq = (await self.read(team)).seq

        def numbered(view: View) -> Sequence[Change]:
            if op == "look":
                return decide(view)
            return decide(cast("View", _Numbered(view, seq)))

        return await super().commit(team, numbered, actor=actor, op=op)


async def test_a_view_that_knows_its_number_is_not_compared_record_by_record() -> None:
    inner = _Numbering()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path, aclosing(HostedStore(path, "operator")) as store:
        for n in range(1, 4):

            def decide(view: View, n: int = n) -> Sequence[Change]:
                assert len(view.tasks()) == n - 1
                return [PutTask(task(str(view.next_task_id)))]

            await store.commit("alpha", decide, actor="x", op="x")
    assert list((await inner.read("alpha")).tasks) == ["1", "2", "3"]


async def test_a_later_team_is_another_one_though_it_has_the_same_number() -> None:
    inner = _Numbering()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path, aclosing(HostedStore(path, "operator")) as store:
        await put(store, PutTask(task("1")))
        await inner.delete("alpha", actor=LEAD)
        await inner.create("alpha", config(createdAt=2), actor=LEAD)
        await inner.commit("alpha", always(PutTask(task("9"))), actor=LEAD, op="look")
        assert await next_task_id(store) == 10
