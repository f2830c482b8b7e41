"""What every store promises about restoring a team from its log: one test for each promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import pytest

from bullpen.errors import Conflict, Invalid
from bullpen.protocol import json_text
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)
from bullpen.protocol.message import DeliveryState
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Entry, Store
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

AGENTS = (LEAD, "ann", "bob", "cleo", "QA Lead!")
KEPT = 4
"""How many seen messages `live_through` leaves in the inbox; see `StoreContract`."""


MADE: tuple[Change, ...] = (PutTeam(config().header), *map(PutMember, config().roster))
"""Creates a team."""


def texts(events: Sequence[Event]) -> list[bytes]:
    """Return the events as lines of a log, to compare them byte by byte."""
    return [json_text.dumps_line(event.encode()) for event in events]


async def boxes(store: Store, team: str) -> dict[str, tuple[Entry, ...]]:
    """Return all mail of a team, archived or not."""
    return {agent: (await store.mailbox(team, agent, history=True)).entries for agent in AGENTS}


async def restored(store: Store) -> list[Event]:
    """Restore `beta` from the log of `alpha`, which has lived through everything."""
    await live_through(store)
    events = await store.events("alpha")
    await store.restore("beta", events)
    return events


async def live_through(store: Store) -> None:
    """Give a team something of everything: mail in every state, ids that were used once."""
    team = "alpha"
    for number in range(1, 5):
        await put(store, PutTask(task(str(number))), team=team)
    await put(store, DeleteTask("4"), PutMember(member("cleo", later=[None])), team=team)
    await put(store, PutTask(task("2", owner="bob", metadata={"x": 1.5})), team=team)
    await put(store, RemoveMember("bob"), PutTeam({"description": "new"}), team=team)
    await put(store, PutRequest(request("r1")), PutRequest(request("r2")), team=team)
    await put(store, PutRequest(request("r1", state="approved")), team=team)
    await put(store, PutRequest(request("r3")), team=team)
    await put(store, RemoveRequest("r3"), team=team)
    await put(store, PutNote(note("plan")), PutNote(note("gone", later=1)), team=team)
    await put(store, PutNote(note("gone", "", version=2)), team=team)
    for number in range(2 * KEPT + 4):
        sent = message(f"m{number}", text=f"Text \ud83d of {number}")
        await store.append(team, "ann", sent, actor=LEAD)
    await put(store, Deliver("bob", message("m1")), Deliver("QA Lead!", message("x")), team=team)
    # The second and the third stay in the inbox while their neighbours are archived.
    seen = [f"m{number}" for number in range(2 * KEPT + 2) if number not in (1, 2)]
    await store.acknowledge(team, "ann", [*seen, f"m{2 * KEPT + 2}"], "seen", actor="ann")
    await store.acknowledge(team, "ann", ["m1", "m2"], "injected", actor="ann")
    await store.acknowledge(team, "ann", ["m2"], "seen", actor="ann")


def log(*changes: Change, observed: bool = False) -> list[Event]:
    """Return a log that creates the team and then has one event for every change."""
    return [
        Event(1, "2026-01-01T00:00:00.000Z", LEAD, "team.create", MADE),
        *(
            Event(seq, "2026-01-01T00:00:01.250Z", "foreign", "observed", (change,), observed)
            for seq, change in enumerate(changes, start=2)
        ),
    ]


NO_LOGS: dict[str, Callable[[list[Event]], list[Event]]] = {
    "nothing": lambda events: [],
    "a hole": lambda events: [*events[:1], *events[2:]],
    "no beginning": lambda events: events[1:],
    "two of one number": lambda events: [*events[:2], *events[1:]],
    "another order": lambda events: [events[0], events[2], events[1]],
    "no team.create": lambda events: [Event(1, "", LEAD, "test", events[0].changes)],
    "no name": lambda events: [Event(1, "", LEAD, "team.create", (PutTeam({"later": 1}),))],
    "a task id that is a path": lambda events: log(PutTask(task("../1"))),
    "a mailbox that is a path": lambda events: log(Deliver("../ann", message("m"))),
    "a member that is a path": lambda events: log(PutMember(member("a/b"))),
    "a note that is a path": lambda events: log(PutNote(note("../plan"))),
    "a request that is a path": lambda events: log(PutRequest(request("../r"))),
}


class RestoreContract:
    """Part of `StoreContract`, which says how to run it."""

    async def test_a_restored_team_has_exactly_the_log_it_was_made_of(self, store: Store) -> None:
        events = await restored(store)
        assert texts(await store.events("beta")) == texts(events)
        assert await store.teams() == ["alpha", "beta"]

    async def test_a_restored_team_reads_as_the_one_that_lived(self, store: Store) -> None:
        await restored(store)
        there, here = await store.read("beta"), await store.read("alpha")
        assert there == here
        assert list(there.tasks) == list(here.tasks)
        assert await store.config("beta") == here.team
        await assert_replay_is_live(store, "beta")

    async def test_restored_mail_has_its_states_its_order_and_its_words(self, store: Store) -> None:
        await restored(store)
        assert await boxes(store, "beta") == await boxes(store, "alpha")
        for agent in AGENTS:
            hot = await store.mailbox("beta", agent)
            assert hot == await store.mailbox("alpha", agent)
            for entry in hot.entries:
                after = await store.mailbox("beta", agent, after=entry.id)
                assert after == await store.mailbox("alpha", agent, after=entry.id)

    async def test_a_restored_team_gives_no_task_id_again(self, store: Store) -> None:
        await restored(store)
        assert await next_task_id(store, "beta") == await next_task_id(store) == 5

    async def test_a_restored_team_goes_on_as_the_one_that_lived(self, store: Store) -> None:
        await restored(store)
        for team in ("alpha", "beta"):
            await put(store, PutTask(task("5")), DeleteTask("1"), team=team)
            for msg_id in ("m0", "m1", "m5", "new"):
                await store.append(team, "ann", message(msg_id), actor=LEAD)
            ids = [entry.id for entry in (await store.mailbox(team, "ann")).entries]
            await store.acknowledge(team, "ann", ids, "seen", actor="ann")
        here, there = await store.events("alpha"), await store.events("beta")
        assert [(e.seq, e.op, e.changes) for e in there] == [(e.seq, e.op, e.changes) for e in here]
        assert await boxes(store, "beta") == await boxes(store, "alpha")
        assert await store.read("beta") == await store.read("alpha")
        await assert_replay_is_live(store, "beta")

    async def test_a_team_restored_once_more_is_still_the_same(self, store: Store) -> None:
        events = await restored(store)
        await store.delete("beta", actor=LEAD)
        await store.restore("beta", events)
        assert texts(await store.events("beta")) == texts(events)
        assert await boxes(store, "beta") == await boxes(store, "alpha")

    async def test_mail_of_other_programs_survives_a_restore(self, store: Store) -> None:
        nameless = [message(None, text=f"nameless {number}") for number in range(4)]
        marks: list[tuple[int, DeliveryState]] = [(0, "consumed"), (1, "injected"), (2, "seen")]
        events = log(
            *(Deliver("ann", each) for each in nameless),
            *(MarkMail("ann", (nameless[index].id,), state) for index, state in marks),
            Deliver("bob", message(None, text="read before it was met", read=True)),
            observed=True,
        )
        await store.restore("beta", events)
        assert texts(await store.events("beta")) == texts(events)
        found = (await store.mailbox("beta", "ann", history=True)).entries
        assert [(entry.message.text, entry.state) for entry in found] == [
            ("nameless 1", "injected"),
            ("nameless 2", "seen"),
            ("nameless 3", "stored"),
        ]
        assert [entry.message.read for entry in found] == [False, True, False]
        (entry,) = (await store.mailbox("beta", "bob")).entries
        assert entry.state == "seen"
        await assert_replay_is_live(store, "beta")

    async def test_a_message_that_came_again_after_it_was_consumed_counts_again(
        self, store: Store
    ) -> None:
        first, again = message("m1", text="first"), message("m1", text="again")
        await store.restore(
            "beta",
            log(
                Deliver("ann", first),
                Deliver("ann", message("m2")),
                MarkMail("ann", ("m1",), "consumed"),
                Deliver("ann", again),
                Deliver("ann", message("m2", text="repeated")),
                observed=True,
            ),
        )
        found = (await store.mailbox("beta", "ann", history=True)).entries
        assert [(entry.id, entry.message.text) for entry in found] == [
            ("m2", "Hello"),
            ("m1", "again"),
        ]

    async def test_a_team_that_another_program_made_can_be_restored(self, store: Store) -> None:
        events = [
            Event(1, "2026-01-01T00:00:00.000Z", LEAD, "message", (Deliver("ann", message("m1")),)),
            Event(2, "2026-01-01T00:00:00.000Z", "foreign", "observed", MADE, observed=True),
        ]
        await store.restore("beta", events)
        assert texts(await store.events("beta")) == texts(events)
        assert (await store.read("beta")).team == config()

    async def test_nobody_is_present_in_a_restored_team(self, store: Store) -> None:
        await store.beat("alpha", heartbeat("ann"))
        await store.restore("beta", await store.events("alpha"))
        assert await store.presence("beta") == {}

    async def test_a_restored_team_needs_no_mending(self, store: Store) -> None:
        await restored(store)
        assert await store.checkup("beta", fix=True) == []
        assert await store.checkup(None, fix=True) == []
        assert texts(await store.events("beta")) == texts(await store.events("alpha"))

    async def test_a_restore_never_replaces_a_team(self, store: Store) -> None:
        await live_through(store)
        before = await store.read("alpha"), await boxes(store, "alpha")
        with pytest.raises(Conflict):
            await store.restore("alpha", log(PutTask(task("9"))))
        assert (await store.read("alpha"), await boxes(store, "alpha")) == before

    async def test_of_concurrent_restores_exactly_one_wins(self, store: Store) -> None:
        outcomes: list[str] = []

        async def try_it(number: int) -> None:
            given = log(*(PutTask(task(str(n), owner=f"o{number}")) for n in range(1, 6)))
            try:
                await store.restore("beta", given)
                outcomes.append(f"o{number}")
            except Conflict:
                outcomes.append("conflict")

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(try_it, number)
        assert outcomes.count("conflict") == 5
        tasks = (await store.read("beta")).tasks
        assert {each.owner for each in tasks.values()} == set(outcomes) - {"conflict"}

    async def test_a_team_created_while_it_is_restored_is_one_or_the_other(
        self, store: Store
    ) -> None:
        for _ in range(5):
            outcomes: list[str] = []

            async def restore(won: list[str] = outcomes) -> None:
                with suppress(Conflict):
                    await store.restore("beta", log(PutTask(task("1"))))
                    won.append("restored")

            async def create(won: list[str] = outcomes) -> None:
                with suppress(Conflict):
                    await store.create("beta", config("beta"), actor=LEAD)
                    won.append("created")

            async with anyio.create_task_group() as group:
                group.start_soon(restore)
                group.start_soon(create)
            (outcome,) = outcomes
            assert len((await store.read("beta")).tasks) == (outcome == "restored")
            await store.delete("beta", actor=LEAD)

    @pytest.mark.parametrize("spoil", NO_LOGS.values(), ids=NO_LOGS.keys())
    async def test_what_is_no_whole_log_is_invalid_and_makes_nothing(
        self, store: Store, spoil: Callable[[list[Event]], list[Event]]
    ) -> None:
        await live_through(store)
        with pytest.raises(Invalid):
            await store.restore("beta", spoil(await store.events("alpha")))
        assert await store.teams() == ["alpha"]

    @pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a\0b"])
    async def test_what_cannot_be_a_team_name_is_not_restored(
        self, store: Store, name: str
    ) -> None:
        with pytest.raises(Invalid):
            await store.restore(name, log())
        assert await store.teams() == ["alpha"]
