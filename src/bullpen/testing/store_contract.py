"""What every store promises: one test for each promise. Subclass it to check a store.

class TestMyStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MyStore(limits=self.limits)
        yield store
        await store.aclose()
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import anyio
import pytest

from bullpen.errors import Conflict, Invalid, NotFound
from bullpen.protocol.changes import (
    DeleteTask,
    Deliver,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.testing.commit_contract import CommitContract
from bullpen.testing.mailbox_contract import MailboxContract, see, send
from bullpen.testing.restore_contract import RestoreContract
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    config,
    heartbeat,
    member,
    message,
    next_task_id,
    note,
    put,
    request,
    task,
)

T = TypeVar("T")

Call = Callable[[Store, str], Awaitable[object]]

CALLS_ON_A_TEAM: dict[str, Call] = {
    "config": lambda store, team: store.config(team),
    "read": lambda store, team: store.read(team),
    "commit": lambda store, team: put(store, PutTask(task("1")), team=team),
    "append": lambda store, team: store.append(team, "ann", message("m1"), actor=LEAD),
    "mailbox": lambda store, team: store.mailbox(team, "ann"),
    "acknowledge": lambda store, team: store.acknowledge(team, "ann", ["m"], "seen", actor="ann"),
    "events": lambda store, team: store.events(team),
    "watch": lambda store, team: anext(store.watch(team)),
    "beat": lambda store, team: store.beat(team, heartbeat("ann")),
    "presence": lambda store, team: store.presence(team),
    "checkup": lambda store, team: store.checkup(team, fix=False),
}
CALLS_WITH_A_TEAM_NAME: dict[str, Call] = {
    **CALLS_ON_A_TEAM,
    "create": lambda store, team: store.create(team, config(), actor=LEAD),
    "delete": lambda store, team: store.delete(team, actor=LEAD),
}
CALLS_WITH_A_MEMBER_NAME: dict[str, Call] = {
    "append": lambda store, name: store.append("alpha", name, message("m1"), actor=LEAD),
    "mailbox": lambda store, name: store.mailbox("alpha", name),
    "acknowledge": lambda store, name: store.acknowledge("alpha", name, ["m"], "seen", actor=LEAD),
    "beat": lambda store, name: store.beat("alpha", heartbeat(name)),
    "deliver": lambda store, name: put(store, Deliver(name, message("m1"))),
}
_LONG = "x" * 300
NO_NAMES = ["", ".", "..", "../alpha", "a/b", "/alpha", "a\\b", ".hidden", "a\0b", "a\nb", _LONG]


async def all_refuse(
    store: Store, calls: dict[str, Call], state: Callable[[], Awaitable[object]]
) -> None:
    """Fail with each call that does not find a name invalid, or that changes something."""
    wrong = []
    for name in NO_NAMES:
        for called, call in calls.items():
            before, end = await state(), "accepted"
            try:
                with anyio.fail_after(5):
                    await call(store, name)
            except Invalid:
                end = "refused" if await state() == before else "refused after a change"
            except Exception as error:
                end = repr(error)
            if end != "refused":
                wrong.append(f"{called} {name[:20]!r}: {end}")
    assert not wrong, "\n".join(wrong)


@asynccontextmanager
async def watching(
    store: Store, *, agent: str | None = None
) -> AsyncIterator[tuple[int, AsyncIterator[int]]]:
    """Yield the first number of a watch, and the watch, which is closed at the end."""
    seqs = store.watch("alpha", agent=agent)
    try:
        with anyio.fail_after(5):
            first = await anext(seqs)
        yield first, seqs
    finally:
        close = getattr(seqs, "aclose", None)
        if close is not None:
            await close()


async def wait_for_seq(seqs: AsyncIterator[int], seq: int) -> None:
    with anyio.fail_after(5):
        while await anext(seqs) < seq:
            pass


async def wakes_within(seqs: AsyncIterator[int], seconds: float) -> bool:
    """Return whether a watch yields in that time; if not, it cannot be used any more."""
    with anyio.move_on_after(seconds):
        await anext(seqs)
        return True
    return False


@asynccontextmanager
async def looking(
    changes: AsyncGenerator[int, None], look: Callable[[], Awaitable[T]]
) -> AsyncIterator[Callable[[T], Awaitable[None]]]:
    """Yield a function that waits for something, checking only when a watch wakes."""
    found: list[T] = []
    news = anyio.Event()

    async def follow() -> None:
        nonlocal news
        async for _ in changes:
            found.append(await look())
            news.set()
            news = anyio.Event()

    async def shows(value: T) -> None:
        with anyio.fail_after(8):
            while not found or found[-1] != value:
                await news.wait()

    async with aclosing(changes), anyio.create_task_group() as group:
        group.start_soon(follow)
        yield shows
        group.cancel_scope.cancel()


async def last_message(store: Store, agent: str) -> str | None:
    """Return the id of the last message in a mailbox."""
    entries = (await store.mailbox("alpha", agent)).entries
    return entries[-1].id if entries else None


class StoreContract(CommitContract, MailboxContract, RestoreContract):
    """Every promise of a `Store` that one process can check. A subclass has a fixture `store`."""

    @pytest.fixture(autouse=True)
    async def team(self, store: Store) -> str:
        """Create the team `alpha`, which every test starts with."""
        await store.create("alpha", config(), actor=LEAD)
        return "alpha"

    # Teams

    async def test_a_created_team_reads_back_as_it_was_given(self, store: Store) -> None:
        given = config("beta", description="A team", later={"deep": [1, {"x": 2.5}]})
        await store.create("beta", given, actor=LEAD)
        state = await store.read("beta")
        assert state.team == given
        assert (state.tasks, state.requests, state.problems) == ({}, {}, ())

    async def test_the_config_alone_is_the_one_that_read_shows(self, store: Store) -> None:
        await put(store, PutMember(member("cleo")), RemoveMember("ann"), PutTeam({"later": [1]}))
        assert await store.config("alpha") == (await store.read("alpha")).team

    async def test_creating_a_team_is_its_first_event(self, store: Store) -> None:
        (event,) = await store.events("alpha")
        rows = [PutMember(row) for row in config().roster]
        assert (event.seq, event.op, event.actor) == (1, "team.create", LEAD)
        assert event.changes == (PutTeam(config().header), *rows)
        assert (await store.read("alpha")).seq == 1

    async def test_event_times_are_iso_8601_in_utc_with_milliseconds(self, store: Store) -> None:
        (event,) = await store.events("alpha")
        shape = "".join("0" if char.isdigit() else char for char in event.time)
        assert shape == "0000-00-00T00:00:00.000Z"

    async def test_a_second_team_of_the_same_name_is_a_conflict(self, store: Store) -> None:
        before = await store.read("alpha")
        with pytest.raises(Conflict):
            await store.create("alpha", config(description="other"), actor="bob")
        assert await store.read("alpha") == before

    async def test_of_concurrent_creates_exactly_one_wins(self, store: Store) -> None:
        outcomes: list[str] = []

        async def try_it(n: int) -> None:
            try:
                await store.create("beta", config("beta", description=str(n)), actor=LEAD)
                outcomes.append(str(n))
            except Conflict:
                outcomes.append("conflict")

        async with anyio.create_task_group() as group:
            for n in range(8):
                group.start_soon(try_it, n)
        assert outcomes.count("conflict") == 7
        (winner,) = set(outcomes) - {"conflict"}
        assert (await store.read("beta")).team.description == winner

    async def test_teams_are_listed_sorted(self, store: Store) -> None:
        for name in ("gamma", "Zeta", "beta"):
            await store.create(name, config(name), actor=LEAD)
        assert await store.teams() == ["Zeta", "alpha", "beta", "gamma"]

    async def test_a_store_without_teams_lists_none(self, store: Store) -> None:
        await store.delete("alpha", actor=LEAD)
        assert await store.teams() == []

    async def test_teams_do_not_share_anything(self, store: Store) -> None:
        await store.create("beta", config("beta"), actor=LEAD)
        before = await store.read("beta")
        await put(
            store, PutTask(task("7")), Deliver("ann", message("m1")), PutRequest(request("r"))
        )
        assert await store.read("beta") == before
        assert (await store.mailbox("beta", "ann")).entries == ()
        assert await next_task_id(store, "beta") == 1

    async def test_deleting_a_team_twice_is_fine(self, store: Store) -> None:
        assert await store.delete("alpha", actor=LEAD) is True
        assert await store.delete("alpha", actor=LEAD) is False
        assert await store.teams() == []

    @pytest.mark.parametrize("call", CALLS_ON_A_TEAM.values(), ids=CALLS_ON_A_TEAM.keys())
    async def test_a_deleted_team_is_not_found(self, store: Store, call: Call) -> None:
        await store.delete("alpha", actor=LEAD)
        with pytest.raises(NotFound), anyio.fail_after(5):
            await call(store, "alpha")
        assert await store.teams() == []

    @pytest.mark.parametrize("call", CALLS_ON_A_TEAM.values(), ids=CALLS_ON_A_TEAM.keys())
    async def test_a_team_that_never_was_is_not_found(self, store: Store, call: Call) -> None:
        with pytest.raises(NotFound), anyio.fail_after(5):
            await call(store, "beta")
        assert await store.teams() == ["alpha"]

    async def test_a_team_created_again_knows_nothing_of_the_old_one(self, store: Store) -> None:
        await put(
            store, PutTask(task("7")), PutRequest(request("r1")), Deliver("bob", message("m"))
        )
        await put(store, PutNote(note("plan")))
        await self.fill_archive(store)
        await store.beat("alpha", heartbeat("ann"))
        await store.delete("alpha", actor=LEAD)
        await store.create("alpha", config(), actor=LEAD)
        state = await store.read("alpha")
        assert (state.tasks, state.requests, state.notes, state.seq) == ({}, {}, {}, 1)
        assert await next_task_id(store) == 1
        assert await store.presence("alpha") == {}
        for agent in ("ann", "bob"):
            assert (await store.mailbox("alpha", agent, history=True)).entries == ()

    # Events

    async def mixed_run(self, store: Store) -> None:
        """Make a few changes of every kind."""
        await put(store, PutTask(task("1")), PutTask(task("2")), Deliver("ann", message("m1")))
        await put(store, PutMember(member("cleo", later=1)), PutRequest(request("r1")))
        await send(store, "m2", "m3", "m2")
        await store.acknowledge("alpha", "ann", ["m1", "m2"], "injected", actor="ann")
        await see(store, ["m1"])
        await put(store, DeleteTask("1"), PutTask(task("2", owner="bob", later=[None])))
        await put(store, RemoveMember("bob"), PutTeam({"description": "new", "createdAt": None}))
        await put(store, PutRequest(request("r1", state="approved")))
        await put(store, PutNote(note("plan")), PutNote(note("gone")))
        await put(store, PutNote(note("gone", "", version=2)), PutNote(note("plan", version=2)))
        await put(store, PutMember(member("bob")), Deliver("bob", message("m1")))
        await self.fill_archive(store)

    async def test_events_are_numbered_from_one_without_holes(self, store: Store) -> None:
        await self.mixed_run(store)
        seqs = [event.seq for event in await store.events("alpha")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert (await store.read("alpha")).seq == seqs[-1]

    async def test_events_come_after_a_number_and_up_to_a_limit(self, store: Store) -> None:
        await self.mixed_run(store)
        events = await store.events("alpha")
        assert await store.events("alpha", after=3) == events[3:]
        assert await store.events("alpha", after=3, limit=2) == events[3:5]
        assert await store.events("alpha", limit=1) == events[:1]
        assert await store.events("alpha", limit=0) == []
        assert await store.events("alpha", after=len(events)) == []
        assert await store.events("alpha", after=len(events) + 9) == []

    async def test_looking_at_events_makes_none(self, store: Store) -> None:
        await store.create("beta", config("beta", description=None, later=None), actor=LEAD)
        for _ in range(3):
            assert [event.op for event in await store.events("beta")] == ["team.create"]

    async def test_replaying_the_log_gives_the_live_state(self, store: Store) -> None:
        await self.mixed_run(store)
        await assert_replay_is_live(store)

    async def test_events_of_concurrent_writers_have_no_holes(self, store: Store) -> None:
        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(send, store, f"m{n}")
                group.start_soon(put, store, PutTask(task(str(n))))
                group.start_soon(put, store, Deliver("ann", message(f"d{n}")))
        assert [event.seq for event in await store.events("alpha")] == list(range(1, 32))
        await assert_replay_is_live(store)

    # Watching

    async def test_a_watch_begins_with_the_current_seq(self, store: Store) -> None:
        await put(store, PutTask(task("1")))
        async with watching(store) as (first, _):
            assert first == 2

    async def test_a_watch_wakes_after_a_commit(self, store: Store) -> None:
        async with watching(store) as (_, seqs):
            for n in range(1, 4):
                committed = await put(store, PutTask(task(str(n))))
                await wait_for_seq(seqs, committed.seq)

    async def test_a_watch_wakes_after_an_append(self, store: Store) -> None:
        async with watching(store) as (_, seqs):
            (stored,) = await send(store, "m1")
            await wait_for_seq(seqs, stored.seq)

    async def test_a_watch_wakes_after_an_acknowledgement(self, store: Store) -> None:
        (stored,) = await send(store, "m1")
        async with watching(store) as (_, seqs):
            await see(store, ["m1"])
            await wait_for_seq(seqs, stored.seq + 1)

    async def test_a_watch_that_waits_already_wakes(self, store: Store) -> None:
        async with watching(store) as (_, seqs), anyio.create_task_group() as group:
            group.start_soon(wait_for_seq, seqs, 2)
            await anyio.wait_all_tasks_blocked()
            await put(store, PutTask(task("1")))

    async def test_every_watch_wakes(self, store: Store) -> None:
        async with watching(store) as (_, one), watching(store) as (_, other):
            committed = await put(store, PutTask(task("1")))
            await wait_for_seq(one, committed.seq)
            await wait_for_seq(other, committed.seq)

    async def test_a_watch_yields_without_a_change_if_it_is_asked_to(self, store: Store) -> None:
        seqs = store.watch("alpha", every_s=0.05)
        with anyio.fail_after(5):
            assert [await anext(seqs) for _ in range(3)] == [1, 1, 1]
        if isinstance(seqs, AsyncGenerator):
            await seqs.aclose()

    async def test_a_watch_ends_with_not_found_when_the_team_is_deleted(self, store: Store) -> None:
        async with watching(store) as (_, seqs):
            await store.delete("alpha", actor=LEAD)
            with pytest.raises(NotFound):
                await wait_for_seq(seqs, 1_000_000)

    async def test_a_mailbox_whose_name_is_a_path_is_not_watched(self, store: Store) -> None:
        with pytest.raises(Invalid):
            await anext(store.watch("alpha", agent="../ann"))

    async def test_a_heartbeat_wakes_no_watch(self, store: Store) -> None:
        await store.beat("alpha", heartbeat("ann"))
        async with watching(store) as (_, seqs):
            for beat_ms in (2, 3):
                await store.beat("alpha", heartbeat("ann", beat_ms=beat_ms))
            assert not await wakes_within(seqs, 0.3)

    async def test_a_watch_for_an_agent_wakes_for_its_mail(self, store: Store) -> None:
        changes = store.watch("alpha", agent="ann")
        async with looking(changes, lambda: last_message(store, "ann")) as shows:
            await shows(None)
            for msg_id in ("m1", "m2", "m3"):
                await store.append("alpha", "ann", message(msg_id), actor=LEAD)
                await shows(msg_id)

    async def test_a_watch_for_an_agent_wakes_for_tasks_and_requests(self, store: Store) -> None:
        done = PutTask(task("1", status="completed"))
        for change in (PutTask(task("1")), PutRequest(request("r1")), done):
            async with watching(store, agent="ann") as (_, seqs):
                await put(store, change)
                assert await wakes_within(seqs, 5), change

    async def test_a_watch_for_an_agent_sleeps_through_the_mail_of_others(
        self, store: Store
    ) -> None:
        await store.append("alpha", "ann", message("m1"), actor=LEAD)
        await store.append("alpha", "bob", message("m2"), actor=LEAD)
        async with watching(store, agent="ann") as (_, seqs):
            await store.append("alpha", "bob", message("m3"), actor=LEAD)
            await store.append("alpha", LEAD, message("m4"), actor="bob")
            await store.acknowledge("alpha", "bob", ["m2"], "seen", actor="bob")
            assert not await wakes_within(seqs, 0.3)

    async def test_a_watch_for_an_agent_sleeps_through_changes_of_the_roster(
        self, store: Store
    ) -> None:
        await store.append("alpha", "ann", message("m1"), actor=LEAD)
        async with watching(store, agent="ann") as (_, seqs):
            await put(store, PutMember(member("cleo")))
            await put(store, PutTeam({"description": "another"}))
            await put(store, RemoveMember("cleo"))
            assert not await wakes_within(seqs, 0.3)

    async def test_a_watch_for_an_agent_ends_with_the_team(self, store: Store) -> None:
        async with watching(store, agent="ann") as (_, seqs):
            await store.delete("alpha", actor=LEAD)
            with pytest.raises(NotFound):
                while await wakes_within(seqs, 5):
                    pass

    # Presence

    async def test_nobody_is_present_at_first(self, store: Store) -> None:
        assert await store.presence("alpha") == {}

    async def test_the_last_heartbeat_of_every_agent_counts(self, store: Store) -> None:
        for beat_ms in (1, 2, 3):
            await store.beat("alpha", heartbeat("ann", beat_ms=beat_ms, state="working", later=[1]))
        await store.beat("alpha", heartbeat("bob", beat_ms=2))
        assert await store.presence("alpha") == {
            "ann": heartbeat("ann", beat_ms=3, state="working", later=[1]),
            "bob": heartbeat("bob", beat_ms=2),
        }

    async def test_a_heartbeat_is_no_event(self, store: Store) -> None:
        await store.beat("alpha", heartbeat("ann"))
        assert (await store.read("alpha")).seq == 1

    # Names and damage

    async def test_what_cannot_be_a_team_name_is_invalid(self, store: Store) -> None:
        async def state() -> object:
            return await store.teams()

        await all_refuse(store, CALLS_WITH_A_TEAM_NAME, state)
        assert await store.teams() == ["alpha"]

    async def test_what_cannot_be_a_member_name_is_invalid(self, store: Store) -> None:
        async def state() -> object:
            return (await store.read("alpha")).seq, await store.presence("alpha")

        await all_refuse(store, CALLS_WITH_A_MEMBER_NAME, state)
        assert await state() == (1, {})

    async def test_a_store_that_was_only_used_needs_no_mending(self, store: Store) -> None:
        await self.mixed_run(store)
        before = await store.read("alpha"), await store.events("alpha")
        assert await store.checkup("alpha", fix=True) == []
        assert await store.checkup(None, fix=True) == []
        assert (await store.read("alpha"), await store.events("alpha")) == before
