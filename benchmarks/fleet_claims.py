"""Row c: workers on several hosts claim the tasks of one team in strict order."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass
from statistics import median

import anyio
import nats

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.store import NatsStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.operations import Tasks
from bullpen.team.tasks.rules import ready
from bullpen.team.team import Teams
from figures import Figure, Row, at_least, figure_of, none_at_all
from fleet_cell import Cell
from fleet_counts import FleetCounts
from fleet_figures import Costs, beside, fleet_row
from fleet_hosts import Hosts, Pause
from fleet_scenery import agents_of, bare_append, make_team
from row_claims import graph

_PER_S = 250.0
_WORK_S = 0.02
_LOOK_AGAIN_S = 1.0
_BELIEVE_S = 1.0
_BARE_APPENDS = 300


@dataclass(frozen=True, slots=True)
class Race:
    """What all workers did together."""

    per_s: float
    faults: int
    bare_per_s: float


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """Run races one after another, each with its own team."""
    races = [await _race(cell, f"claims-{each}", counts) for each in range(counts.claim_races)]
    workers = counts.claim_hosts * counts.claim_workers
    work = (
        f"{workers} workers on {counts.claim_hosts} hosts,"
        f" {counts.claim_tasks:,} tasks with dependencies, 20 ms of work each"
    )
    faults = Figure(sum(race.faults for race in races), "")
    ours = figure_of([race.per_s for race in races], "/s")
    bare = Figure(median(race.bare_per_s for race in races), "/s", "appends of one writer")
    ratio = median(2 * race.per_s / race.bare_per_s for race in races)
    told = f"{ratio:.2f} x bare (two commits a task)"
    return [
        fleet_row(
            "c",
            f"{work}: claimed and completed",
            ours,
            beside(at_least(ours, _PER_S), told),
            bare,
        ),
        fleet_row("c", f"{work}: double, early or lost", faults, none_at_all(faults)),
    ]


async def _race(cell: Cell, team: str, counts: FleetCounts) -> Race:
    store = NatsStore(cell.endpoint)
    try:
        names = agents_of(counts.claim_hosts * counts.claim_workers)
        await make_team(store, team, agents=len(names))
        drafts = [
            Draft(f"Task {number}", blocked_by=[f"@{blocker}" for blocker in blockers])
            for number, blockers in enumerate(graph(counts.claim_tasks))
        ]
        await Teams(store).open(team).tasks.add_many(drafts, by=LEAD)
        bare_per_s = await _bare(cell, team)
        async with Hosts(counts.claim_hosts, host, cell.endpoint, team, counts) as hosts:
            await hosts.found()
            begin = time.monotonic()
            claimed = [task_id for ids in await hosts.step() for task_id in ids]
            took = time.monotonic() - begin
        faults = len(claimed) - len(set(claimed)) + await _faults(store, team)
    finally:
        await store.aclose()
    return Race(len(claimed) / took, faults, bare_per_s)


async def _bare(cell: Cell, team: str) -> float:
    """The maximum for one subject: appends one after another."""
    client = await nats.connect(list(cell.endpoint.servers))
    js, subject, head = client.jetstream(timeout=10), Address(f"bare-{team}", 0, "0").log, 0
    begin = time.monotonic()
    for _ in range(_BARE_APPENDS):
        head = await bare_append(js, subject, b"x" * 400, head)
    took = time.monotonic() - begin
    await client.close()
    return _BARE_APPENDS / took


async def _faults(store: NatsStore, team: str) -> int:
    """Tasks that the log shows claimed twice, claimed too early, or not completed."""
    claimed: set[str] = set()
    completed: set[str] = set()
    faults = 0
    for event in await store.events(team):
        for change in event.changes:
            if not isinstance(change, PutTask):
                continue
            task = change.task
            if event.op == "task.claim":
                faults += task.id in claimed or not completed.issuperset(task.blocked_by)
                claimed.add(task.id)
            elif event.op == "task.done":
                completed.add(task.id)
    tasks = (await store.read(team)).tasks
    return faults + sum(task.status != "completed" for task in tasks.values())


async def host(
    index: int, pause: Pause, endpoint: Endpoint, team: str, counts: FleetCounts
) -> list[str]:
    """Run workers that share a store; return the ids of the tasks they claimed."""
    store = NatsStore(endpoint, believe_s=_BELIEVE_S)
    tasks, news, claimed = Teams(store).open(team).tasks, News(store, team), list[str]()
    first = index * counts.claim_workers
    names = agents_of(first + counts.claim_workers)[first:]
    async with anyio.create_task_group() as group:
        group.start_soon(news.follow)
        await news.wait()
        await pause(None)
        async with anyio.create_task_group() as workers:
            for name in names:
                workers.start_soon(_work, tasks, news, name, claimed)
        group.cancel_scope.cancel()
    await store.aclose()
    return claimed


class News:
    """Tells the workers of a host about changes, and when everything is done."""

    def __init__(self, store: NatsStore, team: str) -> None:
        self._store = store
        self._team = team
        self._changed = anyio.Event()
        self.all_done = False

    async def follow(self) -> None:
        """Run until everything is done."""
        async with aclosing(self._store.watch(self._team, every_s=_LOOK_AGAIN_S)) as changes:
            async for _ in changes:
                tasks = (await self._store.read(self._team)).tasks
                self.all_done = all(task.status == "completed" for task in tasks.values())
                # A host checks once, for all its workers, whether there is anything to claim.
                if self.all_done or any(ready(tasks, team=self._team)):
                    self._changed.set()
                    self._changed = anyio.Event()
                if self.all_done:
                    return

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()


async def _work(tasks: Tasks, news: News, name: str, claimed: list[str]) -> None:
    while not news.all_done:
        task = await tasks.claim_next(by=name)
        if task is None:
            if not news.all_done:
                await news.wait()
            continue
        claimed.append(task.id)
        await anyio.sleep(_WORK_S)
        await tasks.done(task.id, by=name)
