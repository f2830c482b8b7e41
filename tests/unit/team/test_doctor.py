"""What the rules find wrong with a team, and what they mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.contract import Committed, Decide, Finding, View
from bullpen.store.memory import MemoryStore
from bullpen.team.doctor import checkup
from bullpen.team.team import Team

if TYPE_CHECKING:
    from .conftest import MakeBoard, MakeTask


async def put(store: MemoryStore, *tasks: Task) -> None:
    """Write tasks as another program would: without asking the rules."""

    def decide(_: View) -> Sequence[Change]:
        return [PutTask(task) for task in tasks]

    await store.commit("crew", decide, actor="other", op="other")


async def tasks_of(team: Team) -> dict[str, Task]:
    return {task.id: task for task in (await team.tasks.list()).tasks}


async def mend(store: MemoryStore) -> list[Finding]:
    return await checkup(store, "crew", fix=True, by=LEAD)


async def test_a_sound_team_has_no_findings_and_no_event(
    team: Team, store: MemoryStore, make_task: MakeTask
) -> None:
    await put(
        store,
        make_task("1", status="completed", owner="somebody who left", blocks=["2"]),
        make_task("2", status="in_progress", owner="alice@crew", blocked_by=["1"]),
        make_task("3", owner="bob"),
        make_task("4", status="in_progress", metadata={"_internal": True}),
    )
    before = len(await team.events())
    assert await mend(store) == []
    assert len(await team.events()) == before


async def test_looking_changes_nothing(team: Team, store: MemoryStore, make_task: MakeTask) -> None:
    await put(store, make_task("1", blocked_by=["9"], status="in_progress"))
    before = await tasks_of(team)
    findings = await checkup(store, "crew", fix=False, by=LEAD)
    assert [(finding.kind, finding.fixed) for finding in findings] == [
        ("unknown_edge", False),
        ("no_owner", False),
    ]
    assert not any(finding.action for finding in findings)
    assert await tasks_of(team) == before


async def test_everything_that_can_be_mended_is_mended_in_one_commit(
    team: Team, store: MemoryStore, make_task: MakeTask
) -> None:
    await put(
        store,
        make_task("1", blocks=["2"]),
        make_task("2", blocks=["../9"]),
        make_task("3", blocked_by=["2", "77"]),
        make_task("4", status="in_progress"),
        make_task("5", status="in_progress", owner="nobody@crew"),
        make_task("6", owner="nobody"),
    )
    before = len(await team.events())
    findings = await mend(store)
    assert [(finding.kind, finding.where, finding.fixed) for finding in findings] == [
        ("unknown_edge", "tasks/crew/2.json", True),
        ("unknown_edge", "tasks/crew/3.json", True),
        ("one_ended_edge", "tasks/crew/1.json", True),
        ("one_ended_edge", "tasks/crew/3.json", True),
        ("no_owner", "tasks/crew/4.json", True),
        ("unknown_owner", "tasks/crew/5.json", True),
        ("unknown_owner", "tasks/crew/6.json", True),
    ]
    assert "'2' blocks '../9'" in findings[0].what
    assert "'3' depends on '77'" in findings[1].what
    events = await team.events()
    assert (len(events), events[-1].op) == (before + 1, "doctor")
    tasks = await tasks_of(team)
    assert (tasks["1"].blocks, tasks["2"].blocked_by) == (["2"], ["1"])
    assert (tasks["2"].blocks, tasks["3"].blocked_by) == (["3"], ["2"])
    for task_id in ("4", "5", "6"):
        assert (tasks[task_id].status, tasks[task_id].owner) == ("pending", None)
    assert await mend(store) == []


async def test_circles_are_reported_and_left_alone(
    team: Team, store: MemoryStore, make_task: MakeTask
) -> None:
    await put(
        store,
        make_task("1", blocked_by=["2"], blocks=["2"]),
        make_task("2", blocked_by=["1"], blocks=["1"]),
        make_task("3", blocked_by=["3"], blocks=["3"]),
    )
    before = await tasks_of(team)
    findings = await mend(store)
    assert [(finding.kind, finding.fixed) for finding in findings] == [("cycle", False)] * 2
    assert {finding.what for finding in findings} == {
        "tasks depend on each other in a cycle: 1 -> 2 -> 1",
        "tasks depend on each other in a cycle: 3 -> 3",
    }
    assert await tasks_of(team) == before


async def test_half_an_edge_that_would_close_a_circle_is_not_completed(
    team: Team, store: MemoryStore, make_task: MakeTask
) -> None:
    # Only task 2 says that 1 waits for it; 2 waits for 1 for certain.
    await put(
        store,
        make_task("1", blocks=["2"]),
        make_task("2", blocked_by=["1"], blocks=["1"]),
    )
    findings = await mend(store)
    assert [(finding.kind, finding.fixed) for finding in findings] == [
        ("cycle", False),
        ("one_ended_edge", False),
    ]
    assert (await tasks_of(team))["1"].blocked_by == []


class OneViewStore(MemoryStore):
    """A store that shows one view and keeps nothing."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        return Committed(0, tuple(decide(self._view)))


async def test_what_cannot_be_read_is_not_taken_for_missing(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = make_task("1", blocked_by=["7"], owner="carol")
    board = make_board(task, unreadable=frozenset({"7"}))
    assert [finding.kind for finding in await mend(OneViewStore(board))] == ["unknown_owner"]
    rows = [*board.team.members, {"name": "carol", "joinedAt": "yesterday"}, "no row"]
    board.team = board.team.evolve(members=rows)
    assert await mend(OneViewStore(board)) == []
