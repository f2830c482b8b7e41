"""Row 6: workers race for tasks with dependencies until all are completed."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from approaches import GaveUp, flocked, load, mkdir_lock, replace, write_in_place
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Teams
from counts import Counts
from crowd import Start, together
from figures import Figure, Row, at_least, figure_of, none_at_all
from scenery import TEAM, make_team

_BLOCKERS_MAX = 3


@dataclass(frozen=True, slots=True)
class Race:
    """What the workers did together."""

    claims: int
    double: int
    blocked: int
    unfinished: int
    wall_s: float

    @property
    def per_s(self) -> float:
        """Tasks claimed and completed per second."""
        return self.claims / self.wall_s


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """Double claims and speed."""
    waits = graph(counts.tasks)
    races = [
        await _ours(folder / f"ours-{number}", waits, counts) for number in range(counts.repeats)
    ]
    unfinished = sum(race.unfinished for race in races)
    if unfinished:
        raise RuntimeError(f"{unfinished} tasks were left over.")
    peer = _others(folder / "peer", waits, counts, "peer")
    rewrite = _others(folder / "rewrite", waits, counts, "rewrite")
    faults = Figure(sum(race.double + race.blocked for race in races), "")
    rate = figure_of([race.per_s for race in races], "/s")
    work = f"{counts.writers} workers, {counts.tasks} tasks with dependencies"
    return [
        Row(
            6,
            f"{work}: double or blocked claims",
            faults,
            none_at_all(faults),
            (Figure(peer.double, ""), Figure(rewrite.double, "")),
        ),
        Row(
            6,
            f"{work}: claimed and completed/s, fsync on",
            rate,
            at_least(rate, 250),
            (Figure(peer.per_s, "/s", "no fsync"), Figure(rewrite.per_s, "/s", "no fsync")),
        ),
    ]


def graph(tasks: int) -> list[list[int]]:
    """The earlier tasks that each task depends on, the same in every run."""
    dice = random.Random(7)
    waits: list[list[int]] = []
    for number in range(tasks):
        blockers = min(number, dice.randint(0, _BLOCKERS_MAX))
        waits.append(sorted(dice.sample(range(number), blockers)))
    return waits


def pause_s() -> float:
    """How long a worker waits after it found nothing to claim."""
    return random.uniform(0.01, 0.03)


async def _ours(home: Path, waits: list[list[int]], counts: Counts) -> Race:
    store = await make_team(home)
    team = Teams(store).open(TEAM)
    for index in range(counts.writers):
        await team.roster.join(f"worker-{index}", by=LEAD)
    drafts = [
        Draft(f"Task {number}", blocked_by=[f"@{blocker}" for blocker in blockers])
        for number, blockers in enumerate(waits)
    ]
    await team.tasks.add_many(drafts, by=LEAD)
    done = together(counts.writers, work_ours, home)
    tasks = (await store.read(TEAM)).tasks.values()
    blocked = await _claimed_too_early(store)
    await store.aclose()
    claimed = [task_id for ids in done.results for task_id in ids]
    return Race(
        claims=len(claimed),
        double=len(claimed) - len(set(claimed)),
        blocked=blocked,
        unfinished=sum(task.status != "completed" for task in tasks),
        wall_s=done.wall_s,
    )


async def _claimed_too_early(store: FileStore) -> int:
    """How many claims the log shows before a blocker was completed."""
    completed: set[str] = set()
    early = 0
    for event in await store.events(TEAM):
        for change in event.encode()["changes"]:
            task = change.get("task", {})
            if event.op == "task.claim":
                early += not completed.issuperset(task["blockedBy"])
            elif event.op == "task.done":
                completed.add(task["id"])
    return early


def work_ours(index: int, start: Start, home: Path) -> list[str]:
    """Run a worker; return the ids it claimed."""

    async def run() -> list[str]:
        store, claimed = FileStore(home), []
        tasks, me = Teams(store).open(TEAM).tasks, f"worker-{index}"
        await store.config(TEAM)
        start()
        while True:
            task = await tasks.claim_next(by=me)
            if task is None:
                if all(task.status == "completed" for task in (await tasks.list()).tasks):
                    break
                await anyio.sleep(pause_s())
                continue
            claimed.append(task.id)
            await tasks.done(task.id, by=me)
        await store.aclose()
        return claimed

    return anyio.run(run)


def _others(folder: Path, waits: list[list[int]], counts: Counts, approach: str) -> Race:
    folder.mkdir()
    for number, blockers in enumerate(waits):
        task = {
            "id": str(number),
            "subject": f"Task {number}",
            "description": "",
            "status": "pending",
            "blocks": [],
            "blockedBy": [str(blocker) for blocker in blockers],
        }
        (folder / f"{number}.json").write_text(json.dumps(task, indent=2), encoding="utf-8")
    done = together(counts.writers, work_others, folder, approach, counts.peer_claims_s)
    claimed = [task_id for ids in done.results for task_id in ids]
    return Race(len(claimed), len(claimed) - len(set(claimed)), 0, 0, done.wall_s)


def work_others(index: int, start: Start, folder: Path, approach: str, limit_s: float) -> list[str]:
    """A worker that scans all tasks under the lock, until the deadline or all are completed."""
    lock = str(folder / ".lock")
    claimed: list[str] = []

    def put(task: dict[str, Any]) -> None:
        path, text = str(folder / f"{task['id']}.json"), json.dumps(task, indent=2)
        if approach == "peer":
            write_in_place(path, text, fsync=False)
        else:
            replace(path, text.encode(), fsync=False)

    def step() -> str:
        """Complete the last claimed task, or claim the next."""
        tasks = {path.stem: load(str(path)) for path in folder.glob("[0-9]*.json")}
        if claimed and tasks[claimed[-1]]["status"] != "completed":
            put({**tasks[claimed[-1]], "status": "completed"})
            return "worked"
        for task in sorted(tasks.values(), key=lambda task: int(task["id"])):
            blockers = (tasks[blocker]["status"] for blocker in task["blockedBy"])
            if task["status"] == "pending" and set(blockers) <= {"completed"}:
                put({**task, "status": "in_progress", "owner": f"worker-{index}"})
                claimed.append(task["id"])
                return "worked"
        return "wait" if any(task["status"] != "completed" for task in tasks.values()) else "end"

    start()
    deadline, went = time.monotonic() + limit_s, "worked"
    while went != "end" and time.monotonic() < deadline:
        try:
            with mkdir_lock(lock) if approach == "peer" else flocked(lock):
                went = step()
        except GaveUp:
            continue
        if went == "wait":
            time.sleep(pause_s())
    return claimed
