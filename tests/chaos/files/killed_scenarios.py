"""Operations of the file store that tests kill or break at every step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    RemoveMember,
    RemoveRequest,
)
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store, StoreLimits, View
from bullpen.store.files.disk import Disk
from bullpen.store.files.log.split import PartSize
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, member, message, note, request, task

LIMITS = StoreLimits(lock_wait_s=5.0, seen_kept=3)
LONG, SHORT = PartSize(), PartSize(events=5)
"""How long a part of the log is: never full in these tests, or after a few events."""
Scenario = Callable[[FileStore], Awaitable[object]]


def store_on(home: Path, disk: Disk | None = None, *, part: PartSize = LONG) -> FileStore:
    """A store with a clock that stands still, so that two runs write the same bytes."""
    return FileStore(
        home, clock=lambda: 1_700_000_000_000, limits=LIMITS, disk=disk, part_size=part
    )


async def prepare(store: Store) -> None:
    """A team with tasks, mail in every state and a request."""
    await store.create("alpha", config(), actor=LEAD)
    await store.commit(
        "alpha",
        lambda view: [
            *(PutTask(task(str(number))) for number in range(1, 4)),
            PutMember(member("ann")),
            PutMember(member("bob")),
            PutRequest(request("r1")),
            PutNote(note("plan")),
            PutNote(note("old")),
        ],
        actor=LEAD,
        op="prepare",
    )
    for number in range(6):
        await store.append("alpha", "ann", message(f"old{number}"), actor=LEAD)
    await store.acknowledge("alpha", "ann", ["old0", "old1"], "seen", actor="ann")
    await store.acknowledge("alpha", "ann", ["old2"], "injected", actor="ann")


async def commit_eight_files(store: FileStore) -> None:
    def decide(view: View) -> list[Change]:
        first = view.task("1")
        assert first is not None
        return [
            PutTask(first.evolve(status="in_progress", owner="ann")),
            PutTask(task(str(view.next_task_id))),
            DeleteTask("3"),
            PutMember(member("cleo")),
            RemoveMember("bob"),
            PutRequest(request("r2")),
            RemoveRequest("r1"),
            Deliver("ann", message("new1")),
            Deliver("cleo", message("new2")),
        ]

    await store.commit("alpha", decide, actor=LEAD, op="eight")


async def write_notes(store: FileStore) -> None:
    """One note changed, one deleted and one new, and a task with them."""
    await store.commit(
        "alpha",
        lambda view: [
            PutNote(note("plan", "Two\n", version=2)),
            PutTask(task("1", subject="As in the plan")),
            PutNote(note("old", "", version=2)),
            PutNote(note("new", "New\n")),
        ],
        actor=LEAD,
        op="notes",
    )


async def create(store: FileStore) -> None:
    await store.create("beta", config("beta"), actor=LEAD)


async def delete(store: FileStore) -> None:
    await store.delete("alpha", actor=LEAD)


async def append(store: FileStore) -> None:
    await store.append("alpha", "ann", message("new"), actor=LEAD)


async def acknowledge_and_archive(store: FileStore) -> None:
    ids = [f"old{number}" for number in range(6)]
    await store.acknowledge("alpha", "ann", [*ids, "new"], "seen", actor="ann")
    for number in range(4):
        await store.append("alpha", "ann", message(f"more{number}"), actor=LEAD)
    await store.acknowledge("alpha", "ann", [f"more{n}" for n in range(4)], "seen", actor="ann")


async def only_look(store: FileStore) -> None:
    """Take the lock, and so carry out what a dead process left."""
    if "alpha" in await store.teams():
        await store.commit("alpha", lambda view: [], actor=LEAD, op="look")


async def split_log(store: FileStore) -> None:
    """Commit once to a log that is long enough to be split."""
    await store.commit("alpha", lambda view: [PutTask(task("9"))], actor=LEAD, op="task.add")


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        commit_eight_files,
        write_notes,
        create,
        delete,
        append,
        acknowledge_and_archive,
        only_look,
        split_log,
    )
}


def run_in_child(home: Path, scenario: str, disk: Disk) -> None:
    """What a child process does: one scenario on a disk that may kill it."""
    part = SHORT if scenario == "split_log" else LONG
    anyio.run(SCENARIOS[scenario], store_on(home, disk, part=part))


async def state_of(home: Path) -> dict[str, Any]:
    """Everything a new process finds, comparable between homes."""
    store = store_on(home)
    found: dict[str, Any] = {}
    for team in await store.teams():
        # The log first: looking at it carries out what a dead process left.
        await store.events(team)
        state = await store.read(team)
        assert state.problems == ()
        boxes = {
            agent: [
                (entry.id, entry.state)
                for entry in (await store.mailbox(team, agent, history=True)).entries
            ]
            for agent in ("ann", "bob", "cleo")
        }
        found[team] = {
            "config": state.team.raw,
            "tasks": {key: each.raw for key, each in state.tasks.items()},
            "requests": {key: each.raw for key, each in state.requests.items()},
            "notes": {key: each.raw for key, each in state.notes.items()},
            "mail": boxes,
        }
    await store.aclose()
    return found
