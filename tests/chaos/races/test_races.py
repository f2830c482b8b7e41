"""Many processes on one team at once: nothing lost, nothing twice, nothing out of turn."""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import signal
import time
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import COLORS
from bullpen.store.files.locks import STALE_S
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Teams
from support.store.race import FORKSERVER, TEAM, Diary, finish, open_team, start

from .race_bodies import add_edges, join, read_in_a_loop, send, work

pytestmark = pytest.mark.no_loss

CLAIM_REASONS = {"already_claimed", "already_resolved", "blocked", "agent_busy", "task_not_found"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    anyio.run(_create, tmp_path)
    return tmp_path


async def _create(home: Path) -> None:
    await Teams(FileStore(home, fsync=False)).create(TEAM)


async def _join_all(home: Path, count: int) -> None:
    team = open_team(home)
    for number in range(count):
        await team.roster.join(f"member-{number}", by="team-lead")


@pytest.mark.parametrize("count", [16, 64])
def test_processes_that_join_at_the_same_moment_are_all_members(home: Path, count: int) -> None:
    finish(start(home, join, count))
    members = anyio.run(open_team(home).roster.list)
    teammates = [member for member in members if not member.is_lead]
    assert {member.name for member in teammates} == {f"member-{n}" for n in range(count)}
    assert [member.color for member in teammates] == [COLORS[n % 8] for n in range(count)]
    notes = Diary.read_all(home)
    assert len(notes) == count
    # Far more than it takes, also on a machine that runs other tests beside it.
    assert notes[-1]["at"] - notes[0]["at"] < 120


def test_every_acknowledged_message_arrives_once_though_senders_are_killed(home: Path) -> None:
    anyio.run(_join_all, home, 50)
    stop, report = home / "stop", home / "report.json"
    inbox = home / "teams" / TEAM / "inboxes" / "team-lead.json"
    reader = FORKSERVER.Process(target=read_in_a_loop, args=(inbox, report, stop))
    reader.start()
    senders = start(home, send, 50, 100)
    chance = random.Random(2)
    for victim in chance.sample(senders, 20):
        time.sleep(chance.uniform(0.02, 0.25))
        if victim.pid and victim.is_alive():
            os.kill(victim.pid, signal.SIGKILL)
    finish(senders, killed_too=True)
    stop.touch()
    reader.join(60)

    notes = Diary.read_all(home)
    acknowledged = [note["sent"] for note in notes]
    box = anyio.run(open_team(home).mailbox.read, "team-lead")
    rows = json.loads(inbox.read_bytes())
    ids = [row["msg_id"] for row in rows]
    assert box.problems == ()
    assert len(ids) == len(set(ids)), "a message stands there twice"
    assert set(acknowledged) <= set(ids), "an acknowledged message is lost"
    # What was stored and not acknowledged is at most the last message of each victim.
    assert len(ids) - len(acknowledged) <= 20
    assert len(acknowledged) > 2_000

    seen = json.loads(report.read_text(encoding="utf-8"))
    assert seen["looks"] > 20
    assert seen["torn"] == 0
    pauses = [b["at"] - a["at"] for a, b in itertools.pairwise(notes)]
    # A lock that is only waited for is taken after STALE_S.
    assert max(pauses) < STALE_S - 2, "a dead holder held up the others"


def _random_graph(count: int, seed: int) -> list[Draft]:
    chance = random.Random(seed)
    return [
        Draft(
            subject=f"task {number}",
            blocked_by=tuple(
                f"@{chance.randrange(max(0, number - 40), number)}"
                for _ in range(chance.choice((0, 1, 1, 2, 3)) if number else 0)
            ),
        )
        for number in range(count)
    ]


async def _add(home: Path, drafts: list[Draft]) -> None:
    await open_team(home).tasks.add_many(drafts, by="team-lead")


def test_twenty_processes_finish_a_thousand_tasks_in_dependency_order(home: Path) -> None:
    count = int(os.environ.get("BULLPEN_RACE_TASKS", "1000"))
    anyio.run(_join_all, home, 20)
    anyio.run(_add, home, _random_graph(count, seed=3))
    finish(start(home, work, 20))

    tasks = {task.id: task for task in anyio.run(open_team(home).tasks.list).tasks}
    assert len(tasks) == count
    assert {task.status for task in tasks.values()} == {"completed"}
    notes = Diary.read_all(home)
    claims = collections.Counter(note["claimed"] for note in notes if "claimed" in note)
    assert set(claims.values()) == {1}
    refusals = collections.Counter(note["refused"] for note in notes if "refused" in note)
    assert set(refusals) <= CLAIM_REASONS
    assert refusals["blocked"] and sum(refusals.values()) > 20
    _check_order(home)


def _check_order(home: Path) -> None:
    """The log is a second witness: replayed, nobody owns two at once or starts too early."""
    now: dict[str, PutTask] = {}
    for event in anyio.run(open_team(home).events):
        for change in event.changes:
            if not isinstance(change, PutTask):
                continue
            before = now.get(change.task.id)
            if change.task.status == "in_progress" and event.op.startswith("task.claim"):
                assert before is not None and before.task.status == "pending"
                assert before.task.owner in (None, change.task.owner)
                blockers = [now[key].task.status for key in change.task.blocked_by]
                assert set(blockers) <= {"completed"}
                busy = [
                    each.task.id
                    for each in now.values()
                    if each.task.owner == change.task.owner and each.task.status == "in_progress"
                ]
                assert busy == []
            now[change.task.id] = change


def test_processes_that_add_edges_at_random_never_store_a_cycle(home: Path) -> None:
    anyio.run(_join_all, home, 16)
    anyio.run(_add, home, [Draft(subject=f"task {number}") for number in range(30)])
    finish(start(home, add_edges, 16, 25))
    tasks = {task.id: task for task in anyio.run(open_team(home).tasks.list).tasks}
    for task in tasks.values():
        for other in task.blocked_by:
            assert task.id in tasks[other].blocks, "an edge has one end only"
        for other in task.blocks:
            assert task.id in tasks[other].blocked_by, "an edge has one end only"
    done: set[str] = set()
    while ready := {key for key, t in tasks.items() if set(t.blocked_by) <= done} - done:
        done |= ready
    assert done == set(tasks), "there is a cycle"
    notes = Diary.read_all(home)
    assert {note["refused"] for note in notes if "refused" in note} == {"cycle"}
    assert len([note for note in notes if "added" in note]) > 50
