"""Puts together what code does for a team while it is watched."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.work.merge_checks import open_forge_queue, open_queue
from bullpen.app.app import App
from bullpen.errors import one_error
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect, only_worker
from bullpen.runs.forge.landing.proofs import Proofs
from bullpen.runs.forge.landing.queue_landing import is_shown
from bullpen.runs.forge.webhooks.hints import Hints
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.runs.reach.for_team import person_notices
from bullpen.runs.reach.targets import Target
from bullpen.runs.teamfile.backlog.boxes import boxes_of
from bullpen.runs.teamfile.backlog.sources import Backlogs
from bullpen.runs.watch.ending import QueueState
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
from bullpen.view.summary import held_by_gate
from bullpen.workspace.merge_queue.prove import ForgeQueue
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
    reach: Sequence[Target] = (),
    cwd: str = ".",
    backlogs: Backlogs | None = None,
) -> AsyncIterator[RunServices]:
    """Yield what code does for a team while it is watched.

    With `unattended`, code also does what a person would: it nudges stalled agents and waits for
    rate limits. `members` are restarted after a kill; None means all. `notify` are commands that
    run in `cwd`, and `reach` are where a person gets notices.
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
    proofs = Proofs()
    queues = _Queues(app, team, proofs)
    merging = Merging(
        team, queues.step, quiet=quiet.now, returned=None if foreman is None else foreman.wake
    )
    forge = await _forge(app, team, quiet, foreman, proofs)
    chores: list[Chore | None] = [
        merging,
        forge,
        quiet,
        foreman,
        None if led else LeadMail(team),
        backlogs,
    ]
    told: list[str] = []
    notices = await _notices(app, team, notify, cwd, told.append)
    person = await person_notices(app, team, told.append) if reach else None
    services = RunServices(
        restarts=restarts,
        patient=unattended,
        chores=[chore for chore in chores if chore is not None],
        queue=merging.state if forge is None else partial(_either, merging, forge),
        quiet=quiet.now,
        backlogs=backlogs,
        forge=forge,
        notices=[each for each in (notices, person) if each is not None],
        needs=lambda: _needs(team, merging, forge),
        told=told,
        tick=queues.tick,
    )
    with one_error():
        async with AsyncExitStack() as stack:
            if person is not None:
                await stack.enter_async_context(person.opened(reach))
            group = await stack.enter_async_context(anyio.create_task_group())
            for each in (notices, person):
                if each is not None:
                    group.start_soon(each.run)
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


class _Queues:
    """The merge queue of a team, opened anew when its settings change.

    Where the forge merges, another one tests what the forge gets and merges.
    """

    def __init__(self, app: App, team: Team, proofs: Proofs) -> None:
        self._app = app
        self._team = team
        self._proofs = proofs
        self._open: tuple[str, Queue] | None = None
        self._tests: tuple[str, ForgeQueue] | None = None

    async def step(self, settings: MergeSettings) -> Stepped | None:
        """Take one step of the queue, unless the forge has no pull request yet.

        If the forge merges, only test what has to pass before that.
        """
        forge = await self._team.forge.settings()
        if forge is not None and forge.merge == "forge":
            if not self._proofs.wanted():
                return None
            return await (await self._forge_queue(settings)).prove(self._proofs.wanted)
        each_has_one = forge is not None and forge.pull_request == "task"
        if each_has_one and not is_shown(await self._team.merges.line()):
            return None
        return await (await self._queue(settings)).step()

    async def tick(self) -> None:
        """Tick the boxes of finished tasks that are still open, if work is merged at all."""
        settings = await self._team.merges.settings()
        if settings is not None:
            await (await self._queue(settings)).tick()

    async def _queue(self, settings: MergeSettings) -> Queue:
        key = repr(settings.raw)
        if self._open is None or self._open[0] != key:
            boxes = await boxes_of(self._team, settings)
            home = self._app.settings.home
            queue = await open_queue(
                self._team, settings, home=home, environ=os.environ, boxes=boxes
            )
            self._open = key, queue
        return self._open[1]

    async def _forge_queue(self, settings: MergeSettings) -> ForgeQueue:
        key = repr(settings.raw)
        if self._tests is None or self._tests[0] != key:
            home = self._app.settings.home
            queue = await open_forge_queue(self._team, settings, home=home, environ=os.environ)
            self._tests = key, queue
        return self._tests[1]


async def _forge(
    app: App, team: Team, quiet: QuietHours, foreman: Foreman | None, proofs: Proofs
) -> ForgeWorker | None:
    """Return what works on the team's forge; None if it uses none."""
    if await team.forge.settings() is None:
        return None
    home = app.settings.home
    return ForgeWorker(
        team,
        partial(connect, team=team, home=home, environ=os.environ),
        quiet=quiet.now,
        returned=None if foreman is None else foreman.wake,
        alone=partial(only_worker, home, team.name),
        hints=Hints(home, team.name),
        proofs=proofs,
    )


def _either(merging: Merging, forge: ForgeWorker) -> QueueState:
    """Return why nothing can be merged, here or on the forge, if that is so."""
    found = (merging.state(), forge.state(), forge.held())
    return next((state for state in found if state.trouble is not None), found[0])


async def _needs(team: Team, merging: Merging, forge: ForgeWorker | None) -> list[str]:
    """Return what a person has to do that no record of the team says."""
    trouble = merging.state().trouble
    tasks = (await team.tasks.list()).tasks
    if trouble is not None and held_by_gate(await team.agents.config(), tasks) is not None:
        # The records say it, in fewer words.
        trouble = None
    held = [] if trouble is None else [f"merges are held: {trouble}"]
    if forge is not None:
        away = forge.state().trouble
        held += [*([] if away is None else [f"the forge cannot be used: {away}"])]
        held += await forge.needs()
    return [*held, *await saved_work(team)]
