"""Row a: commits of many writers, each on its own teams, compared with bare appends."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from statistics import median

import anyio
import nats
from nats.aio.client import Client

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.subjects import Address, partition_for
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Teams
from figures import Figure, Goal, Row, at_least, figure_of, spread
from fleet_cell import PARTITIONS, Cell
from fleet_counts import FleetCounts
from fleet_figures import Costs, beside, fleet_row
from fleet_scenery import agents_of, bare_append, for_each, make_team, message, task

_TEAMS_EACH = 2
_AGENTS = 10
_EVENT = b"x" * 300
_RATIO = 0.75

Step = Callable[[int], Awaitable[None]]
"""One append of a writer."""

_TEXTS = {
    "commit": "`store.commit` of a task, an event of 300 bytes",
    "append": "`store.append` of a message, an event of 420 bytes",
    "edit": "`team.tasks.edit`, with the rules of the team",
}


@dataclass(frozen=True, slots=True)
class Round:
    """Commits per second; processor time of one, here and in all servers."""

    per_s: float
    client_us: float
    servers_us: float
    done: int


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """Alternate between ours and the bare client, over the same server, in short turns.

    On a busy machine both wait for it most of the time, which hides what ours costs: the ratio of
    the processor times does not move with the load.
    """
    store = NatsStore(cell.one_server)
    bare = await nats.connect(list(cell.one_server.servers))
    try:
        await for_each(_teams(counts), lambda team: make_team(store, team, agents=_AGENTS, tasks=1))
        contestants = {"bare": _bare(bare, counts), **_ours(store)}
        rounds: dict[str, list[Round]] = {name: [] for name in contestants}
        for number in range(counts.rounds + 1):
            names = list(contestants)
            for name in names if number % 2 else reversed(names):
                found = await _round(cell, contestants[name], counts)
                # The first round of each opens files and fills caches.
                if number:
                    rounds[name].append(found)
    finally:
        await bare.close()
        await store.aclose()
    costs.commit_client_us = median(each.client_us for each in rounds["commit"])
    costs.commit_servers_us = median(each.servers_us for each in rounds["commit"])
    return [_row(name, rounds, counts) for name in _TEXTS]


def _team(writer: int, number: int) -> str:
    return f"own-{writer}-{number % _TEAMS_EACH}"


def _teams(counts: FleetCounts) -> list[str]:
    return [_team(writer, each) for writer in range(counts.writers) for each in range(_TEAMS_EACH)]


def _bare_subject(team: str) -> str:
    """A subject of the same streams that belongs to no team."""
    return Address(f"bare-{team}", partition_for(team, PARTITIONS), "0").log


def _bare(client: Client, counts: FleetCounts) -> Step:
    js = client.jetstream(timeout=10)
    subjects = {team: _bare_subject(team) for team in _teams(counts)}
    heads = dict.fromkeys(subjects.values(), 0)
    numbers = count()

    async def append(writer: int) -> None:
        subject = subjects[_team(writer, next(numbers))]
        heads[subject] = await bare_append(js, subject, _EVENT, heads[subject])

    return append


def _ours(store: NatsStore) -> dict[str, Step]:
    teams = Teams(store)
    receivers = agents_of(_AGENTS)
    notes = [f"Writing part {number}" for number in range(2)]
    tasks = [PutTask(task(1, note)) for note in notes]
    numbers = count()

    async def commit(writer: int) -> None:
        number = next(numbers)
        change = tasks[number // _TEAMS_EACH % 2]
        await store.commit(_team(writer, number), lambda view: [change], actor=LEAD, op="task.edit")

    async def append(writer: int) -> None:
        number = next(numbers)
        to = receivers[number // _TEAMS_EACH % _AGENTS]
        await store.append(_team(writer, number), to, message(), actor=LEAD, fresh=True)

    async def edit(writer: int) -> None:
        number = next(numbers)
        team = teams.open(_team(writer, number))
        await team.tasks.edit("1", by=LEAD, active_form=f"Writing part {number}")

    return {"commit": commit, "append": append, "edit": edit}


async def _round(cell: Cell, step: Step, counts: FleetCounts) -> Round:
    done = 0

    async def write(writer: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await step(writer)
            done += 1

    servers, client = cell.cpu_s(), time.process_time()
    begin = time.perf_counter()
    end = begin + counts.round_s
    async with anyio.create_task_group() as group:
        for writer in range(counts.writers):
            group.start_soon(write, writer)
    took = time.perf_counter() - begin
    return Round(
        done / took,
        (time.process_time() - client) / done * 1e6,
        (cell.cpu_s() - servers) / done * 1e6,
        done,
    )


def _row(name: str, rounds: dict[str, list[Round]], counts: FleetCounts) -> Row:
    ours, bare = rounds[name], rounds["bare"]
    pairs = list(zip(ours, bare, strict=True))
    ratio = figure_of([a.per_s / b.per_s for a, b in pairs], "x bare")
    by_cpu = figure_of([b.client_us / a.client_us for a, b in pairs], "x bare")
    told = f"{median(each.per_s for each in ours):,.0f}/s"
    goal = at_least(ratio, _RATIO)
    return fleet_row(
        "a",
        f"{counts.writers} writers on own teams: {_TEXTS[name]}",
        ratio,
        Goal("-", told, "-") if name == "edit" else beside(goal, told),
        Figure(median(each.per_s for each in bare), "/s"),
        f"by processor time here {by_cpu.text} ({spread(by_cpu.spread)});"
        f" processor time of one: here {median(each.client_us for each in ours):.0f} us"
        f" (bare {median(each.client_us for each in bare):.0f}), in three servers"
        f" {median(each.servers_us for each in ours):.0f} us"
        f" (bare {median(each.servers_us for each in bare):.0f})",
    )
