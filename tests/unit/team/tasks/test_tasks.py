"""Operations on tasks: each one commit with its notices, on a store that decides twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.changes import Change, Deliver, Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import TaskAssignment, payload_of
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams

if TYPE_CHECKING:
    from unit.team.conftest import MakeBoard, MakeTask, StaleStore, Ticker


async def last_event(team: Team) -> Event:
    return (await team.events())[-1]


async def put(store: MemoryStore, *tasks: Task) -> None:
    """Write tasks as another program would: without asking the rules."""

    def decide(_: View) -> Sequence[Change]:
        return [PutTask(task) for task in tasks]

    await store.commit("crew", decide, actor="other", op="other")


async def test_an_id_is_never_given_twice(team: Team) -> None:
    await team.tasks.add("a", by=LEAD)
    await team.tasks.delete("1", by=LEAD)
    assert (await team.tasks.add("b", by=LEAD)).id == "2"


async def test_the_owner_of_a_new_task_is_told_in_the_same_commit(
    team: Team, ticker: Ticker
) -> None:
    task = await team.tasks.add("Build", by="bob", description="All of it", owner="alice")
    assert (task.owner, task.status) == ("alice", "pending")
    [delivery] = [
        change for change in (await last_event(team)).changes if isinstance(change, Deliver)
    ]
    message = delivery.message
    assert (delivery.to, message.sender, message.color) == ("alice", "bob", "green")
    assert list(message.raw) == [
        "from", "text", "timestamp", "color", "msgV", "msg_id", "type", "read",
    ]  # fmt: skip
    assert message.timestamp == "2026-11-14T22:47:11.000Z"
    assert message.text == (
        '{"type":"task_assignment","taskId":"1","subject":"Build","description":"All of it",'
        '"assignedBy":"bob","timestamp":"2026-11-14T22:47:11.000Z"}'
    )


async def test_who_gives_a_task_to_itself_is_not_told(team: Team) -> None:
    await team.tasks.add("Build", by="alice", owner="alice")
    await team.tasks.add("Test", by="alice")
    await team.tasks.assign("2", "alice", by="alice")
    assert (await team.mailbox.read("alice")).entries == ()


async def test_several_tasks_are_added_together_or_not_at_all(team: Team) -> None:
    drafts = [
        Draft("a", owner="alice"),
        Draft("b", blocked_by=["@0"], owner="bob"),
        Draft("c", owner=LEAD),
    ]
    before = len(await team.events())
    tasks = await team.tasks.add_many(drafts, by=LEAD)
    assert [task.id for task in tasks] == ["1", "2", "3"]
    assert len(await team.events()) == before + 1
    assert await team.mailbox.unread() == {LEAD: 0, "alice": 1, "bob": 1}
    with pytest.raises(Refused):
        await team.tasks.add_many([Draft("d"), Draft("e", blocked_by=["77"])], by=LEAD)
    assert len((await team.tasks.list()).tasks) == 3


async def test_a_list_leaves_out_the_bookkeeping_of_other_programs(
    team: Team, store: MemoryStore
) -> None:
    internal = Task.new(id="1", subject="alice", description="", metadata={"_internal": True})
    await put(store, internal)
    await team.tasks.add("Build", by=LEAD)
    listing = await team.tasks.list()
    assert ([task.id for task in listing.tasks], listing.problems) == (["2"], ())
    assert [task.id for task in await team.tasks.ready()] == ["2"]


async def test_a_task_that_is_not_there_is_not_found(team: Team) -> None:
    await team.tasks.add("Build", by=LEAD)
    with pytest.raises(NotFound, match="Available tasks: 1"):
        await team.tasks.get("2")


async def test_an_edit_that_changes_nothing_leaves_no_event(team: Team) -> None:
    await team.tasks.add("Build", by=LEAD)
    before = len(await team.events())
    assert (await team.tasks.edit("1", by=LEAD, subject="Build")).subject == "Build"
    assert len(await team.events()) == before
    task = await team.tasks.edit("1", by="alice", subject="Rebuild", description="More")
    assert (task.subject, task.description) == ("Rebuild", "More")
    assert (await last_event(team)).op == "task.edit"


async def test_of_many_claimants_exactly_one_succeeds(team: Team) -> None:
    await team.tasks.add("Build", by=LEAD)
    winners: list[str] = []
    reasons: list[str] = []

    async def claim(name: str) -> None:
        try:
            await team.tasks.claim("1", by=name)
        except Refused as error:
            reasons.append(error.reason)
        else:
            winners.append(name)

    async with anyio.create_task_group() as group:
        for name in ("alice", "bob", LEAD):
            group.start_soon(claim, name)
    assert len(winners) == 1
    assert reasons == ["already_claimed"] * 2
    assert (await team.tasks.get("1")).owner == winners[0]


async def test_the_next_task_is_the_first_that_is_ready_or_ones_own(team: Team) -> None:
    assert await team.tasks.claim_next(by="alice") is None
    before = len(await team.events())
    assert await team.tasks.claim_next(by="alice") is None
    assert len(await team.events()) == before
    drafts = [Draft("a", owner="bob"), Draft("b"), Draft("c", blocked_by=["@1"])]
    await team.tasks.add_many(drafts, by=LEAD)
    task = await team.tasks.claim_next(by="alice", lease_s=60)
    assert task
    assert (task.id, task.owner, task.facts.attempt) == ("2", "alice", 1)
    assert (await last_event(team)).op == "task.claim"
    own = await team.tasks.claim_next(by="bob")
    assert own
    assert own.id == "1"
    assert await team.tasks.claim_next(by="alice", also=True) is None
    await team.tasks.done("2", by="alice")
    with pytest.raises(Refused) as error:
        await team.tasks.claim_next(by="bob")
    assert error.value.reason == "agent_busy"


async def test_the_answer_is_that_of_the_decision_that_counted(
    stale_store: StaleStore, make_board: MakeBoard, make_task: MakeTask
) -> None:
    teams = Teams(stale_store)
    await teams.create("crew")
    stale_store.stale = make_board(make_task("1"))
    assert await teams.open("crew").tasks.claim_next(by=LEAD) is None


async def test_assigning_tells_the_new_owner_once(team: Team) -> None:
    await team.tasks.add("a", by=LEAD)
    for _ in range(2):
        assert (await team.tasks.assign("1", "alice", by=LEAD)).owner == "alice"
    [entry] = (await team.mailbox.read("alice")).entries
    payload = payload_of(entry.message.text)
    assert isinstance(payload, TaskAssignment)
    assert (payload.task_id, payload.assigned_by) == ("1", LEAD)
    assert entry.message.color is None


async def test_edges_come_and_go_at_both_ends(team: Team) -> None:
    await team.tasks.add_many([Draft("a"), Draft("b"), Draft("c")], by=LEAD)
    assert (await team.tasks.depend("3", ["1", "2"], by=LEAD)).blocked_by == ["1", "2"]
    assert (await team.tasks.get("1")).blocks == ["3"]
    with pytest.raises(Refused) as error:
        await team.tasks.depend("1", "3", by=LEAD)
    assert error.value.reason == "cycle"
    assert (await team.tasks.undepend("3", "1", by=LEAD)).blocked_by == ["2"]
    assert (await team.tasks.get("1")).blocks == []
    assert [event.op for event in await team.events()][-2:] == ["task.depend", "task.undepend"]


async def test_operations_on_a_team_that_is_not_there_are_not_found(teams: Teams) -> None:
    team = teams.open("nobody")
    with pytest.raises(NotFound):
        await team.tasks.add("a", by=LEAD)
    with pytest.raises(NotFound):
        await team.tasks.list()


async def test_metadata_is_added_changed_and_removed_key_by_key(team: Team) -> None:
    await team.tasks.add("Build", by=LEAD, metadata={"area": "parser", "size": 3})
    task = await team.tasks.edit("1", by=LEAD, metadata={"size": 5, "area": None, "risk": "low"})
    assert task.metadata == {"size": 5, "risk": "low"}


@pytest.mark.parametrize("key", ["bullpen", "_internal"])
async def test_metadata_under_a_key_with_a_meaning_is_refused(team: Team, key: str) -> None:
    """A task that hides itself would not keep its team from finishing."""
    with pytest.raises(Invalid, match=key):
        await team.tasks.add("Build", by=LEAD, metadata={key: True})
    await team.tasks.add("Build", by=LEAD)
    with pytest.raises(Invalid, match=key):
        await team.tasks.edit("1", by=LEAD, metadata={key: True})
