"""The last events of a long log, after one that stands for the rest, give the whole team."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bullpen.protocol.changes import DeleteTask, Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import TeamState
from bullpen.store.events.checkpoint import BEGIN
from bullpen.store.events.fold import Folded, fold
from bullpen.store.events.recent import with_begin
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import message, put, task
from bullpen.view.story import story_of
from chaos.files.killed_scenarios import prepare


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    await prepare(store)
    for number in range(10, 20):
        await put(store, PutTask(task(str(number))))
        await store.append("alpha", "ann", message(f"mail{number}"), actor=LEAD)
        await store.acknowledge("alpha", "ann", [f"mail{number - 1}"], "seen", actor="ann")
    await store.acknowledge("alpha", "ann", ["mail19"], "injected", actor="ann")
    await put(store, DeleteTask("10"))
    yield store
    await store.aclose()


async def recent(store: MemoryStore, after: int, state: TeamState | None = None) -> list[Event]:
    state = state or await store.read("alpha")
    boxes = {member.name: await store.mailbox("alpha", member.name) for member in state.team.roster}
    return with_begin(await store.events("alpha", after=after), state, boxes)


def same(found: Folded[dict[str, object]], whole: Folded[dict[str, object]]) -> bool:
    records = (found.seq, found.team, found.members, found.tasks, found.requests)
    mail = {agent: box for agent, box in whole.mail.items() if box}
    return (
        records == (whole.seq, whole.team, whole.members, whole.tasks, whole.requests)
        and {agent: box for agent, box in found.mail.items() if box} == mail
    )


async def test_wherever_the_log_is_cut_the_rest_gives_the_team(store: MemoryStore) -> None:
    whole = fold(await store.events("alpha"))
    for after in range(2, whole.seq):
        events = await recent(store, after)
        assert (events[0].op, events[0].seq) == (BEGIN, after)
        assert same(fold(events), whole), after
        assert list(fold(events).members) == list(whole.members)


async def test_what_changed_while_it_was_read_counts_once(store: MemoryStore) -> None:
    before = await store.read("alpha")
    await put(store, PutTask(task("30")), DeleteTask("12"))
    await store.append("alpha", "ann", message("late"), actor=LEAD)
    events = await recent(store, before.seq - 5, before)
    assert same(fold(events), fold(await store.events("alpha")))


async def test_a_screen_draws_the_same_team(store: MemoryStore) -> None:
    whole, part = story_of(await store.events("alpha")), story_of(await recent(store, 20))
    assert list(part.tasks) == list(whole.tasks)
    assert part.members == whole.members
