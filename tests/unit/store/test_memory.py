"""The store in memory keeps the contract, and shares nothing with its callers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bullpen.errors import Invalid
from bullpen.protocol.changes import Deliver, MarkMail, PutRequest, PutTask, PutTeam
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Mark, Store, StoreLimits
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    config,
    member,
    message,
    put,
    request,
    task,
)
from bullpen.testing.store_contract import StoreContract
from bullpen.testing.store_machine import build_machine

pytestmark = pytest.mark.no_loss


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(limits=self.limits)


@pytest.fixture
async def store() -> Store:
    store = MemoryStore(clock=lambda: 1_700_000_000_537)
    await store.create("alpha", config(), actor=LEAD)
    return store


async def test_records_do_not_change_through_what_was_put_in(store: Store) -> None:
    given = task("1", metadata={"deep": {"x": 1}})
    fields = {"later": {"x": 1}}
    await put(store, PutTask(given), PutTeam(fields))
    given.raw["metadata"]["deep"]["x"] = 2
    fields["later"]["x"] = 2
    state = await store.read("alpha")
    assert state.tasks["1"].raw["metadata"] == {"deep": {"x": 1}}
    assert state.team.raw["later"] == {"x": 1}


async def test_a_team_does_not_change_through_the_config_it_was_created_from(store: Store) -> None:
    given = config("beta", later={"x": 1})
    await store.create("beta", given, actor=LEAD)
    given.raw["later"]["x"] = 2
    given.raw["members"][0]["color"] = "red"
    assert (await store.read("beta")).team == config("beta", later={"x": 1})


async def test_records_do_not_change_through_what_was_handed_out(store: Store) -> None:
    await put(store, PutTask(task("1")), PutTeam({"later": {"x": 1}}), PutRequest(request("r1")))
    await put(store, Deliver("ann", message("m1")))
    state, box = await store.read("alpha"), await store.mailbox("alpha", "ann")
    state.tasks["1"].raw["subject"] = "changed"
    state.requests["r1"].raw["to"] = "changed"
    state.team.raw["later"]["x"] = "changed"
    state.team.raw["members"].clear()
    box.entries[0].message.raw["text"] = "changed"
    for event in await store.events("alpha"):
        for change in event.encode()["changes"]:
            change.get("task", {})["subject"] = "changed"
            change.get("fields", {})["description"] = "changed"
    state = await store.read("alpha")
    assert (state.tasks, state.requests) == ({"1": task("1")}, {"r1": request("r1")})
    assert state.team == config(later={"x": 1})
    assert (await store.mailbox("alpha", "ann")).entries[0].message == message("m1")
    await assert_replay_is_live(store)


async def test_the_clock_gives_the_time_of_events(store: Store) -> None:
    (event,) = await store.events("alpha")
    assert event.time == "2023-11-14T22:13:20.537Z"


async def test_the_members_are_not_a_field_of_the_team(store: Store) -> None:
    with pytest.raises(Invalid, match="single members"):
        await put(store, PutTask(task("1")), PutTeam({"members": []}))
    assert (await store.read("alpha")).seq == 1


async def test_a_team_cannot_lose_its_name(store: Store) -> None:
    with pytest.raises(Invalid, match="name"):
        await put(store, PutTask(task("1")), PutTeam({"name": None}))
    assert (await store.read("alpha")).seq == 1


async def test_a_commit_cannot_change_delivery_states(store: Store) -> None:
    await store.append("alpha", "ann", message("m1"), actor=LEAD)
    with pytest.raises(Invalid, match="acknowledge"):
        await put(store, MarkMail("ann", ("m1",), "seen"))


@pytest.mark.parametrize(
    ("rows", "why"), [([{"color": "red"}], "name"), (2 * [member("ann").raw], "same name")]
)
async def test_a_team_with_bad_rows_cannot_be_created(
    store: Store, rows: list[object], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        await store.create("beta", TeamConfig.parse({"name": "beta", "members": rows}), actor=LEAD)
    assert await store.teams() == ["alpha"]


def _limited() -> MemoryStore:
    return MemoryStore(clock=lambda: 1_700_000_000_537, limits=StoreLimits(seen_kept=2))


TestMachine = build_machine(_limited, _limited).TestCase
TestMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


class _Forgetful(MemoryStore):
    """Breaks one promise: it takes messages marked as seen for unread ones."""

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        return await super().acknowledge(team, agent, ids, "injected", actor=actor)


def test_the_machine_finds_a_store_that_breaks_a_promise() -> None:
    machine = build_machine(_Forgetful, MemoryStore)
    found_is_enough = settings(
        max_examples=200,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=found_is_enough)
