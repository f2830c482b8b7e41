"""Puts together what code does for a team while it is watched."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.work.merge_checks import open_queue
from bullpen.app.app import App
from bullpen.errors import one_error
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.teamfile.backlog.boxes import boxes_of
from bullpen.runs.teamfile.backlog.sources import Backlogs
from bullpen.runs.watch.foreman import Foreman
from bullpen.runs.watch.lead_mail import LeadMail
from bullpen.runs.watch.merges import Merging
from bullpen.runs.watch.notify import Notified, Notifier
from bullpen.runs.watch.quiet_hours import QuietHours
from bullpen.runs.watch.restarts import Restarts
from bullpen.runs.watch.saved_work import saved_work
from bullpen.runs.watch.team_run import Chore, RunServices
from bullpen.team.team import Team
from bullpen.view.notable_events import happenings
from bullpen.workspace.merge_queue.queue import Queue, Stepped


@asynccontextmanager
async def open_services(
    app: App,
    team_name: str,
    *,
    led: bool,
    unattended: bool,
    members: Sequence[str] | None = (),
    notify: Sequence[Notified] = (),
    cwd: str = ".",
    backlogs: Backlogs | None = None,
) -> AsyncIterator[RunServices]:
    """Yield what code does for a team while it is watched.

    With `unattended`, code also does what a person would: it nudges stalled agents and waits for
    rate limits. `members` are restarted after a kill; None means all. `notify` are commands that
    run in `cwd`.
    """
    team, supervisor = app.teams.open(team_name), app.supervisor(team_name)
    restarts = Restarts(patient=unattended, members=members)
    quiet = QuietHours(
        team, lambda name, action, why: supervisor.order(name, action, by=LEAD, reason=why)
    )
    foreman = None
    if unattended:
        foreman = Foreman(
            team,
            supervisor,
            led=led,
            returning=lambda name, agent: restarts.comes_back(name, agent, anyio.current_time()),
        )
    merging = Merging(
        team, _steps(app, team), quiet=quiet.now, returned=None if foreman is None else foreman.wake
    )
    chores: list[Chore | None] = [
        merging,
        quiet,
        foreman,
        None if led else LeadMail(team),
        backlogs,
    ]
    told: list[str] = []
    notices = await _notices(app, team, notify, cwd, told.append)
    services = RunServices(
        restarts=restarts,
        patient=unattended,
        chores=[chore for chore in chores if chore is not None],
        queue=merging.state,
        quiet=quiet.now,
        backlogs=backlogs,
        notices=notices,
        needs=lambda: _needs(team, merging),
        told=told,
    )
    with one_error():
        async with anyio.create_task_group() as group:
            if notices is not None:
                group.start_soon(notices.run)
            yield services
            group.cancel_scope.cancel()


async def _notices(
    app: App, team: Team, notify: Sequence[Notified], cwd: str, tell: Callable[[str], None]
) -> Notifier | None:
    """Return what notifies commands, with the events that they have not got yet."""
    if not notify:
        return None
    config = await team.agents.config()
    kept = agent_folder(app.settings.home, config, LEAD).parent / "notices.json"
    notices = Notifier(notify, cwd=cwd, environ=os.environ, kept=kept, tell=tell)
    until = notices.told_until()
    if until is not None:
        for event in await team.events(after=until):
            for happening in happenings(team.name, event):
                notices.hear(happening)
    return notices


def _steps(app: App, team: Team) -> Callable[[MergeSettings], Awaitable[Stepped | None]]:
    """Return what takes one step of the merge queue, with the current settings."""
    queues: dict[str, Queue] = {}

    async def step(settings: MergeSettings) -> Stepped | None:
        key = repr(settings.raw)
        if key not in queues:
            queues.clear()
            queues[key] = await open_queue(
                team,
                settings,
                home=app.settings.home,
                environ=os.environ,
                boxes=await boxes_of(team, settings),
            )
        return await queues[key].step()

    return step


async def _needs(team: Team, merging: Merging) -> list[str]:
    """Return what a person has to do that no record of the team says."""
    trouble = merging.state().trouble
    held = [] if trouble is None else [f"merges are held: {trouble}"]
    return [*held, *await saved_work(team)]
