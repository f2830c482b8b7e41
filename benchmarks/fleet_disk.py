"""Row f: what the plan's work leaves on the disks of the servers.

A team's log is replaced by a snapshot again and again; only its history grows. Right after a run
the disks also hold events that were replaced and the servers' own logs, which they free within
minutes: that does not grow with the days, so the plan is made from what the streams keep.
"""

from __future__ import annotations

from nats.aio.client import Client

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.subjects import stream_of
from bullpen.store.nats.store import NatsStore
from figures import Figure, Row, below
from fleet_cell import NODES, PARTITIONS, Cell
from fleet_counts import FleetCounts
from fleet_figures import Costs, fleet_row
from fleet_plan import gb_a_day
from fleet_scenery import agents_of, for_each, make_team, message, task

_AGENTS = 10
_TASKS = 20
_GB_A_DAY = 25.0


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """Let every team work, and count what is kept after the first snapshots."""
    store = NatsStore(cell.one_server)
    teams = [f"disk-{number}" for number in range(counts.disk_teams)]
    try:
        client = await store.link.client()
        await for_each(teams, lambda team: make_team(store, team, agents=_AGENTS, tasks=_TASKS))
        await for_each(teams, lambda team: _work(store, team, 0, counts.disk_warm))
        before, commits_before = await _kept(client), await _commits(store, teams)
        end = counts.disk_warm + counts.disk_messages
        await for_each(teams, lambda team: _work(store, team, counts.disk_warm, end))
        after, commits = await _kept(client), await _commits(store, teams) - commits_before
    finally:
        await store.aclose()
    costs.kept_bytes_per_commit = (after - before) / commits
    kept = Figure(costs.kept_bytes_per_commit, "bytes", n=commits)
    a_day = Figure(gb_a_day(costs.kept_bytes_per_commit), "GB a day", n=commits)
    free_kb = (cell.disk_bytes() / NODES - after) / 1024
    note = f"{free_kb:,.0f} KB more on each disk right after the run, which the servers free"
    work = "a message, its two marks and half a change to a task: kept of one commit, each server"
    return [
        fleet_row("f", work, kept, note=note),
        fleet_row(
            "f",
            "disk of a server, calculated for the cell of the plan",
            a_day,
            below(a_day, _GB_A_DAY, at_any_load=True),
        ),
    ]


async def _work(store: NatsStore, team: str, begin: int, end: int) -> None:
    """Send messages that are injected and seen, and change a task for every second one."""
    agents = agents_of(_AGENTS)
    for number in range(begin, end):
        agent = agents[number % _AGENTS]
        text = f"Part {number} is done: {message().msg_id} has the tests; the printer still fails."
        sent = await store.append(team, agent, message(text), actor=LEAD, fresh=True)
        await store.acknowledge(team, agent, [sent.id], "injected", actor=agent)
        await store.acknowledge(team, agent, [sent.id], "seen", actor=agent)
        if number % 2:
            change = PutTask(task(number % _TASKS + 1, f"Writing part {number}"))
            await store.commit(team, lambda view: [change], actor=agent, op="task.edit")  # noqa: B023


async def _kept(client: Client) -> int:
    """The length of all messages in the streams of teams."""
    kept = 0
    for partition in range(PARTITIONS):
        call = f"STREAM.INFO.{stream_of(partition)}"
        kept += int((await api(client, call, None, timeout_s=10))["state"]["bytes"])
    return kept


async def _commits(store: NatsStore, teams: list[str]) -> int:
    return sum([(await store.read(team)).seq for team in teams])
